//! Routes are not converted: every legacy reference in them is reported, with advice.

use kodiak_model::{BackendRef, TargetRef};
use kodiak_rules::Policy;
use serde_json::Value;

use super::{
    Finding, Landscape, Outcome,
    old::{self, OldRef},
};

const DESTINATION: &str = "the route does not hold for calls of the MeshService; write one that does, and look whether \
                           what it leads to should stay in one zone";
const BACKEND: &str =
    "it leads to all zones, the MeshService to its own; name it with a port, or a MeshMultiZoneService";

pub(super) fn examine(policy: &Policy, spec: &Value, landscape: &Landscape<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |path: String, target: &TargetRef, advice: &str| {
        let Some(old) = OldRef::of(target) else { return };
        let (new, message) = match old {
            OldRef::Service(service) => match landscape.find(service, policy.meta()) {
                Ok(refs) => (refs.iter().map(old::show).collect(), advice.to_owned()),
                Err(why) => (Vec::new(), format!("{why}; {advice}")),
            },
            OldRef::ServiceSubset(_) | OldRef::Subset => {
                (Vec::new(), format!("no MeshService is chosen by tags: write one whose selector has them; {advice}"))
            }
        };
        let (reference, service) = (old::show(target), old.service().to_owned());
        findings.push(Finding { path, reference, service, outcome: Outcome::Examine, new, message });
    };
    for (n, item) in spec.get("to").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = format!("spec.to[{n}]");
        let target = item.get("targetRef").and_then(|target| serde_json::from_value::<TargetRef>(target.clone()).ok());
        if let Some(target) = target {
            found(format!("{path}.targetRef"), &target, DESTINATION);
        }
        each_backend(item, &path, &mut |path, backend| {
            if OldRef::is_backend(backend) {
                found(path, &backend.target_ref(), BACKEND);
            }
        });
    }
    findings
}

/// Wherever they stand, with the paths to them.
fn each_backend(value: &Value, path: &str, see: &mut impl FnMut(String, &BackendRef)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match (name.as_str(), value) {
                    ("backendRefs", Value::Array(list)) => {
                        list.iter().enumerate().for_each(|(n, value)| read(value, format!("{path}[{n}]"), see));
                    }
                    ("backendRef", value) => read(value, path, see),
                    _ => each_backend(value, &path, see),
                }
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, value)| each_backend(value, &format!("{path}[{n}]"), see));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn read(value: &Value, path: String, see: &mut impl FnMut(String, &BackendRef)) {
    if let Ok(backend) = serde_json::from_value(value.clone()) {
        see(path, &backend);
    }
}
