//! TrafficPermission to MeshTrafficPermission.
//!
//! Kuma applies one TrafficPermission to an inbound, the one with the most specific destination: its sources are
//! allowed, and nobody else. MeshTrafficPermissions are merged, so each converted one first denies everybody, and then
//! allows its sources.
//!
//! **Invariant:** all TrafficPermissions of a mesh are converted, or none: without a restrictive one, a broader one would
//! allow more.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::{
    LegacyPolicy,
    facts::MeshFacts,
    outcome::{NewResource, Outcomes},
    selector::Selector,
};

const NEW: &str = "MeshTrafficPermission";

struct Permission {
    policy: LegacyPolicy,
    sources: Vec<Selector>,
    destinations: Vec<Selector>,
}

pub(super) fn convert(policies: Vec<LegacyPolicy>, facts: &MeshFacts, out: &mut Outcomes) {
    let resources: Vec<_> = policies.iter().map(|policy| policy.resource.clone()).collect();
    match permissions(policies, facts) {
        Ok(permissions) => permissions.into_iter().for_each(|permission| write(permission, facts, out)),
        Err(reason) => {
            let advice = "write MeshTrafficPermissions by hand; until then, mTLS denies all calls of the mesh";
            for resource in resources {
                let reason = format!("{reason}; all TrafficPermissions of a mesh are converted, or none");
                out.leave_out(resource, reason, advice);
            }
        }
    }
}

fn permissions(policies: Vec<LegacyPolicy>, facts: &MeshFacts) -> Result<Vec<Permission>, String> {
    if let Some(name) = facts.policies(NEW).first() {
        return Err(format!("the mesh has {NEW} {name:?} too, which replaces TrafficPermissions in Kuma"));
    }
    let mut all: Vec<Permission> = Vec::new();
    for policy in policies {
        let selectors = |field: &str| -> Result<Vec<Selector>, String> {
            let written = policy.document.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let read = written.iter().map(Selector::read).collect::<Result<_, _>>();
            read.map_err(|reason| format!("TrafficPermission {:?}: {reason}", policy.resource.name))
        };
        let (sources, destinations) = (selectors("sources")?, selectors("destinations")?);
        all.push(Permission { policy, sources, destinations });
    }
    for (n, one) in all.iter().enumerate() {
        for other in &all[n + 1..] {
            check_order(one, other)?;
        }
    }
    Ok(all)
}

/// The same one of both must decide before and after.
fn check_order(one: &Permission, other: &Permission) -> Result<(), String> {
    let names = format!("{:?} and {:?}", one.policy.resource.name, other.policy.resource.name);
    for a in &one.destinations {
        for b in other.destinations.iter().filter(|b| a.overlaps(b)) {
            let before = a.rank().cmp(&b.rank());
            if before == Ordering::Equal {
                return Err(format!(
                    "TrafficPermissions {names} are equally specific for the same inbounds; Kuma applies only the newer one"
                ));
            }
            if before != a.precedence().cmp(&b.precedence()) {
                return Err(format!(
                    "TrafficPermissions {names} select the same inbounds; Kuma applies the more specific one, a {NEW} would have another precedence"
                ));
            }
        }
    }
    Ok(())
}

fn write(permission: Permission, facts: &MeshFacts, out: &mut Outcomes) {
    let Permission { policy, sources, destinations } = permission;
    let allow = |source: &Selector| json!({ "targetRef": source.target_ref(), "default": { "action": "Allow" } });
    let from: Vec<Value> = if sources.contains(&Selector::All) {
        vec![allow(&Selector::All)]
    } else {
        let deny = json!({ "targetRef": { "kind": "Mesh" }, "default": { "action": "Deny" } });
        std::iter::once(deny).chain(sources.iter().map(allow)).collect()
    };
    let mut notes = Vec::new();
    let external = |one: &Selector| one.service().is_some_and(|service| facts.external.contains(service));
    if destinations.iter().any(external) {
        notes.push(
            "it has no effect on calls to ExternalServices any more: a MeshExternalService may be called by all"
                .to_owned(),
        );
    }
    let mesh = &policy.resource.mesh;
    let new = destinations.iter().map(|destination| NewResource {
        kind: NEW,
        mesh: mesh.clone(),
        name: policy.resource.name.clone(),
        spec: json!({ "targetRef": destination.target_ref(), "from": from }),
    });
    // Each destination has a document of its own, and each needs a name.
    for new in new.collect::<Vec<_>>() {
        out.convert(std::slice::from_ref(&policy.resource), vec![new], notes.clone());
    }
}
