//! Proof of a conversion: the verdict on every caller at every inbound, before and after.
//!
//! The RBAC filters of proxies implement exactly these verdicts, which the tests of MeshTrafficPermission show.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kodiak_model::{Cancellation, Cancelled, Word as _};
use kodiak_policies::{
    Entry,
    mesh_traffic_permission::{Action, Caller, Permissions},
};
use kodiak_rules::Policy;

use super::{callers::CallerClass, inbounds::InboundSet, kri_of};

/// Verdicts before and after a conversion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PermissionProof {
    pub callers: usize,
    pub inbounds: usize,
    /// Number of compared verdicts: one per distinct certificate and distinct list of policies.
    pub verdicts: usize,
    /// Verdicts that the conversion changes: on a certificate of the mesh CA anywhere, and on one of a MeshIdentity where
    /// policies are converted.
    pub changed: Vec<Difference>,
    /// Inbounds without converted policies where a certificate of a MeshIdentity gets another verdict than that of the
    /// mesh CA.
    pub open: Vec<Difference>,
}

/// Verdict on a caller that differs from that on its certificate of the mesh CA before the conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Name of a Dataplane; empty for a caller that is none.
    pub caller: String,
    /// SPIFFE ID of its certificate from a MeshIdentity; `None` for its certificate from the mesh CA.
    pub spiffe_id: Option<String>,
    pub inbound: String,
    pub before: Action,
    pub after: Action,
    /// Names of the policies of the inbound.
    pub policies: Vec<Arc<str>>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, spiffe_id, inbound, before, after, policies: _ } = self;
        match (caller.as_str(), spiffe_id) {
            ("", _) => write!(f, "a caller that is no Dataplane")?,
            (caller, None) => write!(f, "Dataplane {caller}")?,
            (caller, Some(id)) => write!(f, "Dataplane {caller} as {id}")?,
        }
        write!(f, " would get {} instead of {} at {inbound}", after.text(), before.text())
    }
}

impl PermissionProof {
    pub fn is_clean(&self) -> bool {
        self.changed.is_empty()
    }

    /// `after`: converted policies by name.
    pub(super) fn of(
        mesh: &str,
        callers: &[CallerClass],
        sets: &[InboundSet],
        after: &BTreeMap<Arc<str>, Arc<Policy>>,
        cancellation: &Cancellation,
    ) -> Result<Self, Cancelled> {
        let mut proof = Self {
            callers: callers.iter().map(|class| class.dataplanes).sum(),
            inbounds: sets.iter().map(|set| set.inbounds).sum(),
            ..Self::default()
        };
        for set in sets {
            let is_converted = set.policies.iter().any(|policy| after.contains_key(&policy.name));
            let comparison = Comparison::of(mesh, set, after);
            for difference in comparison.differences(callers, &mut proof.verdicts, cancellation) {
                let difference = difference?;
                let is_open = !is_converted && difference.spiffe_id.is_some();
                if is_open { &mut proof.open } else { &mut proof.changed }.push(difference);
            }
        }
        Ok(proof)
    }
}

/// First changed verdict at these inbounds.
pub(super) fn first_difference(
    mesh: &str,
    callers: &[CallerClass],
    sets: &[&InboundSet],
    after: &BTreeMap<Arc<str>, Arc<Policy>>,
    cancellation: &Cancellation,
) -> Result<Option<Difference>, Cancelled> {
    let first = |set: &&InboundSet| Comparison::of(mesh, set, after).differences(callers, &mut 0, cancellation).next();
    sets.iter().find_map(first).transpose()
}

/// Permissions of one set of inbounds, before and after.
struct Comparison<'a> {
    mesh: &'a str,
    set: &'a InboundSet,
    before: Permissions,
    after: Permissions,
}

impl<'a> Comparison<'a> {
    fn of(mesh: &'a str, set: &'a InboundSet, after: &BTreeMap<Arc<str>, Arc<Policy>>) -> Self {
        let converted = set.policies.iter().map(|policy| after.get(&policy.name).unwrap_or(policy));
        Self { mesh, set, before: permissions(&set.policies), after: permissions(converted) }
    }

    fn differences<'c>(
        self,
        callers: &'c [CallerClass],
        verdicts: &'c mut usize,
        cancellation: &'c Cancellation,
    ) -> impl Iterator<Item = Result<Difference, Cancelled>> + use<'a, 'c> {
        let unknown = CallerClass {
            example: "".into(),
            dataplanes: 0,
            legacy: Vec::new(),
            ids: std::collections::BTreeSet::default(),
        };
        let classes = std::iter::once(unknown).chain(callers.iter().cloned());
        classes.flat_map(move |class| {
            if let Err(cancelled) = cancellation.check() {
                return vec![Err(cancelled)];
            }
            let before = verdict(&self.before, self.mesh, &class.legacy);
            let legacy = (None, verdict(&self.after, self.mesh, &class.legacy));
            let issued = class
                .ids
                .iter()
                .map(|id| (Some(id.clone()), verdict(&self.after, self.mesh, std::slice::from_ref(id))));
            let compared: Vec<(Option<String>, Action)> = std::iter::once(legacy).chain(issued).collect();
            *verdicts += compared.len();
            let differing = compared.into_iter().filter(|(_, after)| *after != before);
            let differences = differing.map(|(spiffe_id, after)| {
                Ok(Difference {
                    caller: class.example.to_string(),
                    spiffe_id,
                    inbound: self.set.example.clone(),
                    before,
                    after,
                    policies: self.set.policies.iter().map(|policy| policy.name.clone()).collect(),
                })
            });
            differences.collect::<Vec<_>>()
        })
    }
}

pub(super) fn permissions<'a>(policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Permissions {
    let entries: Vec<Entry> =
        policies.into_iter().flat_map(|policy| Entry::of(&kri_of(policy), &policy.body)).collect();
    Permissions::of(&entries)
}

pub(super) fn verdict(permissions: &Permissions, mesh: &str, uris: &[String]) -> Action {
    permissions.verdict(mesh, &Caller { uris, sni: None }).action
}
