//! Conversion of legacy references in policies.

use kodiak_model::{LegacyNames, TargetRef};
use kodiak_rules::Policy;
use serde_json::{Value, json};

use super::{
    Landscape,
    old::{self, OldRef},
    routes,
};

/// Treatment of a legacy item of `to` that has a new one beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldItems {
    /// Who still calls by tags follows it.
    Kept,
    Dropped,
}

/// Result of the conversion of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// All of it, whether anything changed or not.
    pub spec: Value,
    pub changed: bool,
    pub findings: Vec<Finding>,
}

/// Legacy reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Where it stands, in the policy as it was.
    pub path: String,
    pub reference: String,
    /// The value of `kuma.io/service` that is meant; empty where other tags are.
    pub service: String,
    pub outcome: Outcome,
    /// The references that mean the same.
    pub new: Vec<String>,
    /// Explanation; may be empty.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Converted,
    /// The new ones were there already.
    ConvertedBefore,
    /// It may mean more than one thing, or nothing that is there.
    Unclear,
    /// It is part of a route, and those are for people to look at.
    Examine,
}

/// `spec` is that of the policy. Routes stay as they are: what they lead to is another thing with MeshServices.
pub fn convert(policy: &Policy, spec: &Value, landscape: &Landscape<'_>, old_items: OldItems) -> Conversion {
    if policy.kind.legacy_names == LegacyNames::Nothing {
        let findings = routes::examine(policy, spec, landscape);
        return Conversion { spec: spec.clone(), changed: false, findings };
    }
    let written = spec.get("to").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let there: Vec<TargetRef> = written.iter().map(target_of).collect();
    let (mut items, mut findings, mut changed) = (Vec::new(), Vec::new(), false);
    for (n, item) in written.iter().enumerate() {
        let Some(old) = OldRef::of(&there[n]) else {
            items.push(item.clone());
            continue;
        };
        let (outcome, refs, message) = match renewed(old, item, policy, landscape) {
            Ok(Renewed { refs, item, message }) => {
                let missing: Vec<&TargetRef> = refs.iter().filter(|new| !there.contains(new)).collect();
                let outcome = if missing.is_empty() { Outcome::ConvertedBefore } else { Outcome::Converted };
                if old_items == OldItems::Kept {
                    items.push(written[n].clone());
                }
                changed |= old_items == OldItems::Dropped || !missing.is_empty();
                items.extend(missing.into_iter().map(|new| with_target(&item, new)));
                (outcome, refs, message)
            }
            Err(message) => {
                items.push(item.clone());
                (Outcome::Unclear, Vec::new(), message)
            }
        };
        findings.push(Finding {
            path: format!("spec.to[{n}].targetRef"),
            reference: old::show(&there[n]),
            service: old.service().to_owned(),
            outcome,
            new: refs.iter().map(old::show).collect(),
            message,
        });
    }
    let mut spec = spec.clone();
    if changed {
        spec["to"] = Value::Array(items);
    }
    Conversion { spec, changed, findings }
}

/// Replacement of a legacy item.
struct Renewed {
    refs: Vec<TargetRef>,
    /// With the old reference still in it.
    item: Value,
    message: String,
}

fn renewed(old: OldRef<'_>, item: &Value, policy: &Policy, landscape: &Landscape<'_>) -> Result<Renewed, String> {
    let service = match old {
        OldRef::Service(service) => service,
        OldRef::ServiceSubset(service) => {
            return Err(format!(
                "no MeshService is a part of {service}; write one whose selector has these tags, and name it instead"
            ));
        }
        OldRef::Subset => {
            return Err("tags do not choose among MeshServices; name them by labels of their own instead".to_owned());
        }
    };
    let refs = landscape.find(service, policy.meta())?;
    let (item, message) = match policy.kind.legacy_names {
        LegacyNames::All | LegacyNames::Nothing => (item.clone(), String::new()),
        LegacyNames::Only(path) => only(item, path)?,
    };
    Ok(Renewed { refs, item, message })
}

/// With nothing in its conf but what stands at the end of the path.
fn only(item: &Value, path: &[&str]) -> Result<(Value, String), String> {
    let shown = path.join(".");
    let rest = "a MeshService is called in its own zone, and a MeshMultiZoneService is what is called in all";
    let conf = item.get("default").unwrap_or(&Value::Null);
    let part = path.iter().try_fold(conf, |value, field| value.get(field));
    let part = part.ok_or_else(|| format!("only {shown} holds for a MeshService, and it is not written; {rest}"))?;
    let kept = path.iter().rev().fold(part.clone(), |inner, field| json!({ *field: inner }));
    let message = if kept == *conf { String::new() } else { format!("only {shown} is taken over; {rest}") };
    let mut item = item.clone();
    item["default"] = kept;
    Ok((item, message))
}

fn with_target(item: &Value, target: &TargetRef) -> Value {
    let mut item = item.clone();
    item["targetRef"] = serde_json::to_value(target).expect("a targetRef has text keys");
    item
}

/// An unreadable reference is not a legacy one.
fn target_of(item: &Value) -> TargetRef {
    item.get("targetRef").and_then(|target| serde_json::from_value(target.clone()).ok()).unwrap_or_default()
}
