//! A finding of a rule: location, problem and fix.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    file: String,
    line: usize,
    text: String,
    severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Fault,
    Warning,
}

impl Finding {
    pub(super) fn is_fault(&self) -> bool {
        self.severity == Severity::Fault
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, text, severity } = self;
        let prefix = match severity {
            Severity::Fault => "",
            Severity::Warning => "warning: ",
        };
        write!(f, "{file}:{line}: {prefix}{text}")
    }
}

#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// `text` states the problem, then the fix. Lines count from 1.
    pub(super) fn fault(&mut self, file: &str, line: usize, text: impl Into<String>) {
        self.add(file, line, text.into(), Severity::Fault);
    }

    /// A warning does not fail the check.
    pub(super) fn warning(&mut self, file: &str, line: usize, text: impl Into<String>) {
        self.add(file, line, text.into(), Severity::Warning);
    }

    fn add(&mut self, file: &str, line: usize, text: String, severity: Severity) {
        self.0.push(Finding { file: file.to_owned(), line, text, severity });
    }

    pub(super) fn sorted(mut self) -> Vec<Finding> {
        self.0.sort();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_in_the_order_of_the_files() {
        let mut findings = Findings::default();
        findings.fault("b.rs", 1, "is wrong; fix it");
        findings.warning("a.rs", 10, "is long; consider splitting it");
        findings.fault("a.rs", 9, "is wrong; fix it");
        let sorted = findings.sorted();
        let shown: Vec<_> = sorted.iter().map(ToString::to_string).collect();
        let expected = [
            "a.rs:9: is wrong; fix it",
            "a.rs:10: warning: is long; consider splitting it",
            "b.rs:1: is wrong; fix it",
        ];
        assert_eq!(shown, expected);
        assert!(sorted[0].is_fault() && !sorted[1].is_fault());
    }
}
