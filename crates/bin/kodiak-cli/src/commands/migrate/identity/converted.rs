//! Result of a conversion of permissions, as text and as JSON.

use std::fmt::Write as _;

use kodiak_terminal::{Table, printable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::proof::Proof;
use crate::report::count;

/// Differences to show; the rest is counted.
const SHOWN: usize = 10;

/// Result for one mesh.
#[derive(Serialize)]
pub(super) struct ConvertedMesh {
    pub(super) mesh: String,
    #[serde(flatten)]
    pub(super) answer: ConvertedPermissions,
    /// Configuration of proxies before and after.
    pub(super) configuration: Proof,
    /// Request that gave this answer.
    #[serde(skip)]
    pub(super) asked: Value,
}

/// Answer of the control plane.
#[derive(Serialize, Deserialize)]
pub(super) struct ConvertedPermissions {
    pub(super) items: Vec<ConvertedPermission>,
    proof: PermissionProof,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConvertedPermission {
    pub(super) document: Value,
    changed: bool,
    findings: Vec<PermissionFinding>,
}

#[derive(Serialize, Deserialize)]
struct PermissionFinding {
    path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reference: String,
    outcome: PermissionOutcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    new: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum PermissionOutcome {
    Converted,
    Dropped,
    Unchanged,
    Refused,
}

#[derive(Serialize, Deserialize)]
struct PermissionProof {
    callers: usize,
    inbounds: usize,
    verdicts: usize,
    changed: Vec<Difference>,
    /// Inbounds that are not converted, where a certificate of a MeshIdentity gets another verdict.
    open: Vec<Difference>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    caller: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spiffe_id: Option<String>,
    inbound: String,
    before: String,
    after: String,
    policies: Vec<String>,
}

impl ConvertedPermissions {
    pub(super) fn changed(&self) -> impl Iterator<Item = &Value> {
        self.items.iter().filter(|item| item.changed).map(|item| &item.document)
    }
}

impl ConvertedPermission {
    fn name(&self) -> &str {
        self.document["name"].as_str().unwrap_or_default()
    }

    fn is(&self, outcome: PermissionOutcome) -> bool {
        self.findings.iter().any(|finding| finding.outcome == outcome)
    }
}

impl ConvertedMesh {
    pub(super) fn changed(&self) -> impl Iterator<Item = &Value> {
        self.answer.changed()
    }

    pub(super) fn text(&self) -> String {
        let Self { mesh, answer: ConvertedPermissions { items, proof }, configuration, .. } = self;
        let mut text = table(items);
        for (title, outcomes) in [
            ("Notes:", &[PermissionOutcome::Converted, PermissionOutcome::Dropped, PermissionOutcome::Unchanged][..]),
            ("Not converted:", &[PermissionOutcome::Refused]),
        ] {
            let list = messages(items, outcomes);
            if !list.is_empty() {
                let _ = writeln!(text, "{title}\n{list}");
            }
        }
        if !proof.open.is_empty() {
            let _ = writeln!(text, "Not covered by rules when certificates come from a MeshIdentity:");
            for Difference { caller, spiffe_id, inbound, before, after, policies } in proof.open.iter().take(SHOWN) {
                let (id, policies) = (spiffe_id.as_deref().unwrap_or("mesh CA"), policies.join(", "));
                let _ =
                    writeln!(text, "  Dataplane {caller} ({id}) at {inbound}: {before} becomes {after} ({policies})");
            }
            if proof.open.len() > SHOWN {
                let _ = writeln!(text, "  and {} more", proof.open.len() - SHOWN);
            }
            text.push('\n');
        }
        let rewritten = self.changed().count();
        let refused = items.iter().filter(|item| item.is(PermissionOutcome::Refused)).count();
        let permissions = count(rewritten, "permission changes", "permissions change");
        let _ = writeln!(text, "Mesh {mesh}: {permissions}, {refused} not converted");
        if rewritten > 0 {
            let PermissionProof { callers, inbounds, verdicts, changed, .. } = proof;
            let (callers, inbounds) = (count(*callers, "caller", "callers"), count(*inbounds, "inbound", "inbounds"));
            let verdicts = count(*verdicts, "verdict", "verdicts");
            let differing = count(changed.len(), "verdict changes", "verdicts change");
            let _ = writeln!(text, "Proof: {callers} at {inbounds}, {verdicts} compared: {differing}");
            let updated = count(configuration.changed.len(), "proxy gets", "proxies get");
            let invalid = configuration.faulty.len();
            let _ = writeln!(text, "Configuration: {updated} new filters, {invalid} fail validation");
        }
        printable(&text).into_owned()
    }
}

/// One line per converted item.
fn table(items: &[ConvertedPermission]) -> String {
    let mut table = Table::new(["PERMISSION", "WHERE", "OLD", "NEW"]);
    let mut rows = 0;
    for item in items {
        for finding in item.findings.iter().filter(|finding| finding.outcome == PermissionOutcome::Converted) {
            let PermissionFinding { path, reference, new, .. } = finding;
            table.row([item.name().to_owned(), path.clone(), reference.clone(), new.join(", ")]);
            rows += 1;
        }
    }
    if rows == 0 { String::new() } else { table.show() + "\n\n" }
}

/// Two lines per finding with a message.
fn messages(items: &[ConvertedPermission], outcomes: &[PermissionOutcome]) -> String {
    let mut text = String::new();
    for item in items {
        let told = item.findings.iter().filter(|finding| outcomes.contains(&finding.outcome));
        for PermissionFinding { path, reference, message, .. } in told.filter(|finding| !finding.message.is_empty()) {
            let reference = if reference.is_empty() { String::new() } else { format!(": {reference}") };
            let _ = writeln!(text, "  {} {path}{reference}\n    {message}", item.name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_new_matches_reasons_and_the_proof() {
        let answer = json!({
            "items": [
                {
                    "document": { "name": "web" }, "changed": true,
                    "findings": [{
                        "path": "spec.from[0]", "reference": "MeshService web", "outcome": "Converted",
                        "new": ["allow spiffe://default/web", "allow spiffe://td/workload/web"],
                    }],
                },
                {
                    "document": { "name": "old" }, "changed": false,
                    "findings": [{ "path": "spec.from[1]", "outcome": "Refused", "message": "no Dataplane has it" }],
                },
            ],
            "proof": {
                "callers": 2, "inbounds": 1, "verdicts": 5, "changed": [],
                "open": [{
                    "caller": "api-1", "spiffeId": "spiffe://td/workload/api", "inbound": "port 80 of Dataplane api-1",
                    "before": "Allow", "after": "Deny", "policies": ["old"],
                }],
            },
        });
        let answer: ConvertedPermissions = serde_json::from_value(answer).unwrap();
        let converted =
            ConvertedMesh { mesh: "default".to_owned(), answer, configuration: Proof::default(), asked: Value::Null };
        expect_test::expect![[r#"
            PERMISSION   WHERE          OLD               NEW
            web          spec.from[0]   MeshService web   allow spiffe://default/web, allow spiffe://td/workload/web

            Not converted:
              old spec.from[1]
                no Dataplane has it

            Not covered by rules when certificates come from a MeshIdentity:
              Dataplane api-1 (spiffe://td/workload/api) at port 80 of Dataplane api-1: Allow becomes Deny (old)

            Mesh default: 1 permission changes, 1 not converted
            Proof: 2 callers at 1 inbound, 5 verdicts compared: 0 verdicts change
            Configuration: 0 proxies get new filters, 0 fail validation
        "#]]
        .assert_eq(&converted.text());
    }
}
