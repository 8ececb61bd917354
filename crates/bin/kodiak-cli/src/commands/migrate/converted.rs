//! Result of a conversion, as text and as JSON.

use std::fmt::Write as _;

use kodiak_terminal::{Table, printable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answers::{Finding, Outcome};
use super::proof::Proof;
use crate::report::count;

/// Result for one mesh.
#[derive(Serialize)]
pub(super) struct Converted {
    pub(super) mesh: String,
    pub(super) items: Vec<Item>,
    pub(super) proof: Proof,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) document: Value,
    pub(super) changed: bool,
    findings: Vec<Finding>,
}

impl Item {
    /// `MeshTimeout slow`
    fn title(&self) -> String {
        let text = |field: &str| self.document[field].as_str().unwrap_or_default();
        format!("{} {}", text("type"), text("name"))
    }

    fn found(&self, outcome: Outcome) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.outcome == outcome)
    }
}

impl Converted {
    pub(super) fn changed(&self) -> impl Iterator<Item = &Value> {
        self.items.iter().filter(|item| item.changed).map(|item| &item.document)
    }

    pub(super) fn text(&self) -> String {
        let Self { mesh, items, proof } = self;
        let mut text = table(items);
        let notes = told(items, Outcome::Converted) + &told(items, Outcome::ConvertedBefore);
        for (title, list) in [
            ("Notes:", notes),
            ("Ambiguous, not converted:", told(items, Outcome::Unclear)),
            ("Routes to review:", told(items, Outcome::Examine)),
        ] {
            if !list.is_empty() {
                let _ = writeln!(text, "{title}\n{list}");
            }
        }
        let having = |outcome| items.iter().filter(|item| item.found(outcome).next().is_some()).count();
        let changed = self.changed().count();
        let summary = [
            count(changed, "policy changes", "policies change"),
            format!("{} converted already", count(having(Outcome::ConvertedBefore), "is", "are")),
            format!("{} ambiguous", count(having(Outcome::Unclear), "is", "are")),
            count(having(Outcome::Examine), "route to review", "routes to review"),
        ];
        let _ = writeln!(text, "Mesh {mesh}: {}", summary.join(", "));
        if changed > 0 {
            let _ = writeln!(text, "{}", proof.show());
        }
        printable(&text).into_owned()
    }
}

/// One line per converted reference.
fn table(items: &[Item]) -> String {
    let mut rows =
        items.iter().flat_map(|item| item.found(Outcome::Converted).map(move |found| (item, found))).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let mut table = Table::new(["POLICY", "WHERE", "OLD", "NEW"]);
    for (item, Finding { path, reference, new, .. }) in rows {
        table.row([item.title(), path.clone(), reference.clone(), new.join(" and ")]);
    }
    table.show() + "\n\n"
}

/// Two lines per reference with a note.
fn told(items: &[Item], outcome: Outcome) -> String {
    let found = items.iter().flat_map(|item| item.found(outcome).map(move |finding| (item, finding)));
    let told = found.filter(|(_, finding)| !finding.message.is_empty()).map(|(item, finding)| {
        let Finding { path, reference, new, message, .. } = finding;
        let candidates = !new.is_empty() && outcome == Outcome::Examine;
        let new = if candidates { format!(" ({})", new.join(" and ")) } else { String::new() };
        format!("  {} {path}: {reference}{new}\n    {message}\n", item.title())
    });
    told.collect()
}
