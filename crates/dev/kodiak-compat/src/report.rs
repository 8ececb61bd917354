//! Results, and the list of intended differences.

use std::{collections::BTreeMap, process::ExitCode};

use crate::call::Recorded;

/// Passed and failed, by group.
#[derive(Default)]
pub(crate) struct Report(BTreeMap<&'static str, (usize, usize)>);

impl Report {
    /// Prints the differences of a case that failed.
    pub(crate) fn add(&mut self, group: &'static str, name: &str, differences: Vec<String>) {
        let (passed, failed) = self.0.entry(group).or_default();
        if differences.is_empty() {
            *passed += 1;
            return;
        }
        *failed += 1;
        println!("{group}: {name}");
        for difference in differences {
            println!("  {difference}");
        }
    }

    pub(crate) fn end(&self) -> ExitCode {
        let (mut all_passed, mut all_failed) = (0, 0);
        for (group, (passed, failed)) in &self.0 {
            println!("{group:12} {passed:4} passed {failed:4} failed");
            all_passed += passed;
            all_failed += failed;
        }
        println!("{all_passed} passed, {all_failed} failed");
        if all_failed == 0 && all_passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

pub(crate) fn list<'a>(calls: impl Iterator<Item = &'a Recorded>) {
    for call in calls {
        if let Some(differs) = &call.differs {
            println!("{} ({}): {}", call.name, call.request, differs.reason);
        }
    }
}
