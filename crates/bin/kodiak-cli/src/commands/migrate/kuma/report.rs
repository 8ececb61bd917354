//! The report: what comes over as it is, what is converted, and what is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kodiak_migration::kuma::{ExportedResource, ImportedResource, KumaConversion, KumaImport, NotImported};
use kodiak_terminal::{Table, printable};
use serde::Serialize;

use crate::report::count;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImportReport {
    /// Number of resources by kind.
    as_it_is: BTreeMap<String, usize>,
    converted: Vec<ConvertedEntry>,
    left_out: Vec<LeftOutEntry>,
    /// Number of resources by kind that a new control plane does not need.
    not_needed: BTreeMap<String, usize>,
    /// Number of policies by kind that are stored and validated, but not supported yet.
    without_effect: BTreeMap<String, usize>,
    /// Result of `--apply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) applied: Option<Applied>,
}

/// Result of the writes.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Applied {
    pub(super) created: usize,
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    /// Resources that the control plane rejected, or that depend on one.
    pub(super) rejected: Vec<LeftOutEntry>,
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
struct ConvertedEntry {
    from: Vec<ResourceEntry>,
    to: Vec<ResourceEntry>,
    notes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct LeftOutEntry {
    #[serde(flatten)]
    resource: ResourceEntry,
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

#[derive(Serialize)]
struct ResourceEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    mesh: String,
    name: String,
}

impl LeftOutEntry {
    pub(super) fn new((kind, mesh, name): (&str, &str, &str), reason: String, advice: &str) -> Self {
        let resource = ResourceEntry { kind: kind.to_owned(), mesh: mesh.to_owned(), name: name.to_owned() };
        Self { resource, reason, advice: advice.to_owned() }
    }
}

impl From<&ExportedResource> for ResourceEntry {
    fn from(ExportedResource { kind, mesh, name }: &ExportedResource) -> Self {
        Self { kind: kind.clone(), mesh: mesh.clone(), name: name.clone() }
    }
}

impl From<&NotImported> for LeftOutEntry {
    fn from(NotImported { resource, reason, advice }: &NotImported) -> Self {
        Self { resource: resource.into(), reason: reason.clone(), advice: advice.clone() }
    }
}

impl ResourceEntry {
    /// `MeshTimeout shop/slow`
    fn show(&self) -> String {
        let Self { kind, mesh, name } = self;
        if mesh.is_empty() { format!("{kind} {name}") } else { format!("{kind} {mesh}/{name}") }
    }
}

impl ImportReport {
    pub(super) fn of(import: &KumaImport) -> Self {
        let entry = |KumaConversion { from, to, notes }: &KumaConversion| ConvertedEntry {
            from: from.iter().map(ResourceEntry::from).collect(),
            to: to.iter().map(ResourceEntry::from).collect(),
            notes: notes.clone(),
        };
        Self {
            as_it_is: counted(import.documents.iter().filter(|one| one.as_it_is).map(|one| &one.resource)),
            converted: import.conversions.iter().map(entry).collect(),
            left_out: import.left_out.iter().map(LeftOutEntry::from).collect(),
            not_needed: counted(import.not_needed.iter().map(|one| &one.resource)),
            without_effect: counted(import.documents.iter().filter(|one| has_no_effect(one)).map(|one| &one.resource)),
            applied: None,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left_out.is_empty() && self.applied.as_ref().is_none_or(|applied| applied.rejected.is_empty())
    }

    pub(super) fn text(&self) -> String {
        let Self { as_it_is, converted, left_out, not_needed, without_effect, applied } = self;
        let mut text = String::new();
        if !as_it_is.is_empty() {
            let mut table = Table::new(["AS IT IS", "COUNT"]);
            for (kind, count) in as_it_is {
                table.row([kind.clone(), count.to_string()]);
            }
            let _ = writeln!(text, "{}\n", table.show());
        }
        if !converted.is_empty() {
            let mut table = Table::new(["CONVERTED", "TO"]);
            for ConvertedEntry { from, to, .. } in converted {
                let shown = |all: &[ResourceEntry]| all.iter().map(ResourceEntry::show).collect::<Vec<_>>().join(", ");
                table.row([shown(from), if to.is_empty() { "-".to_owned() } else { shown(to) }]);
            }
            let _ = writeln!(text, "{}\n", table.show());
            for ConvertedEntry { from, notes, .. } in converted.iter().filter(|one| !one.notes.is_empty()) {
                let _ = writeln!(text, "{}:", from[0].show());
                for note in notes {
                    let _ = writeln!(text, "  {note}");
                }
            }
            text.push('\n');
        }
        if !left_out.is_empty() {
            text.push_str(&listed("Left out:", left_out));
        }
        if !without_effect.is_empty() {
            let kinds: Vec<_> = without_effect.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let _ = writeln!(text, "Stored, but without effect in this version: {}\n", kinds.join(", "));
        }
        if let Some(Applied { created, changed, unchanged, rejected, notes }) = applied {
            if !rejected.is_empty() {
                text.push_str(&listed("Rejected by the control plane:", rejected));
            }
            for note in notes {
                let _ = writeln!(text, "Note: {note}");
            }
            let failed = rejected.len();
            let _ = writeln!(text, "{created} created, {changed} changed, {unchanged} unchanged, {failed} rejected");
        }
        let total: usize = as_it_is.values().sum();
        let skipped: usize = not_needed.values().sum();
        let summary = [
            count(total, "resource comes over as it is", "resources come over as they are"),
            count(converted.len(), "conversion", "conversions"),
            count(left_out.len(), "resource is left out", "resources are left out"),
            format!("{skipped} not needed"),
        ];
        let _ = writeln!(text, "{}", summary.join(", "));
        printable(&text).into_owned()
    }
}

fn has_no_effect(one: &ImportedResource) -> bool {
    one.checked.kind.is_policy() && !kodiak_kinds::in_force().contains(&one.checked.kind.name)
}

fn listed(title: &str, entries: &[LeftOutEntry]) -> String {
    let mut text = format!("{title}\n");
    for LeftOutEntry { resource, reason, advice } in entries {
        let _ = writeln!(text, "  {}\n    {reason}", resource.show());
        if !advice.is_empty() {
            let _ = writeln!(text, "    {advice}");
        }
    }
    text.push('\n');
    text
}

fn counted<'a>(resources: impl Iterator<Item = &'a ExportedResource>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for resource in resources {
        *counts.entry(resource.kind.clone()).or_default() += 1;
    }
    counts
}
