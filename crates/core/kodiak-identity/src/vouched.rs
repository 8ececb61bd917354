//! Members of MeshServices that registered their own Dataplane: whether callers get them as endpoints, and the identities
//! under which callers accept them. Both follow from tags and labels that a token binds or a user wrote.
//!
//! **Invariant:** callers of a MeshService accept the SPIFFE ID of a MeshIdentity only from a member that is selected by what
//! its token binds or a user wrote, for every key of the selector.
//! **Invariant:** the engine, the reconciler of services and answers to people ask [`acceptance`], so they cannot differ.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kodiak_model::{
    Labels,
    kinds::{
        dataplane::{Admission, TokenScope},
        mesh_service::Selector,
    },
    labels, tags,
};
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use crate::{Issuer, expected_ids, issuer_of};

/// A property of a Dataplane that a selector requires, or that its SPIFFE ID follows from. Displayed as the option of
/// `kodiak generate dataplane-token` that binds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    Name(String),
    Tag(String, String),
    Label(String, String),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "--name {name}"),
            Self::Tag(key, value) => write!(f, "--tag {key}={value}"),
            Self::Label(key, value) if key == labels::WORKLOAD => write!(f, "--workload {value}"),
            Self::Label(key, value) => write!(f, "--label {key}={value}"),
        }
    }
}

/// How a MeshService accepts a Dataplane that it selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Whether the inbounds are endpoints of the MeshService.
    pub is_endpoint: bool,
    /// Names in certificates of the mesh CA that callers accept.
    pub service_tags: BTreeSet<String>,
    /// SPIFFE IDs of MeshIdentities that callers accept.
    pub spiffe_ids: BTreeSet<String>,
    /// Properties that the selector requires and nobody vouches for. Empty when the member is an endpoint, and accepted under
    /// all of its identities.
    pub unvouched: Vec<Claim>,
}

/// `member`: a Dataplane that the selector matches.
///
/// A SPIFFE ID of a MeshIdentity is accepted if every key of the selector is vouched for. A token that leaves the service free
/// ([`TokenScope::AnyService`]) allows its holder any certificate of the mesh CA, so nothing is gained by a member that
/// presents one; it stops being an endpoint when it presents the certificate of a MeshIdentity. A token that leaves
/// everything free allows its holder to connect as any proxy of the mesh.
pub fn acceptance(rollout: &Rollout, selector: &Selector, member: &Proxy) -> Acceptance {
    let names = service_tags(member);
    let expected = expected_ids(rollout, member);
    let Some(admission) = member.admission.as_deref() else {
        return Acceptance { is_endpoint: true, service_tags: names, spiffe_ids: expected, unvouched: Vec::new() };
    };
    let unvouched: Vec<Claim> = claims_of(selector).filter(|claim| !vouches_for(admission, member, claim)).collect();
    let scope = admission.scope();
    if unvouched.is_empty() || scope == TokenScope::AnyProxy {
        return Acceptance { is_endpoint: true, service_tags: names, spiffe_ids: expected, unvouched: Vec::new() };
    }
    let is_free = scope == TokenScope::AnyService;
    let is_accepted = |name: &&String| is_free || is_named(selector, admission, member, name);
    let accepted: BTreeSet<String> = names.iter().filter(is_accepted).cloned().collect();
    let has_spiffe_id = |issuers| matches!(issuer_of(issuers, member), Some(Issuer::Identity { .. }));
    let is_endpoint = (is_free || !accepted.is_empty()) && !rollout.all_issuers().any(has_spiffe_id);
    if !is_endpoint {
        return Acceptance { unvouched, ..Acceptance::default() };
    }
    let is_whole = expected.is_empty() && accepted == names;
    let unvouched = if is_whole { Vec::new() } else { unvouched };
    Acceptance { is_endpoint, service_tags: accepted, spiffe_ids: BTreeSet::new(), unvouched }
}

/// Values of `kuma.io/service` in the certificate that the mesh CA gives to a proxy: its services, else its workload.
fn service_tags(proxy: &Proxy) -> BTreeSet<String> {
    let services: BTreeSet<&String> = proxy.dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).collect();
    let workload = proxy.labels.get(labels::WORKLOAD).filter(|_| services.is_empty());
    services.into_iter().chain(workload).cloned().collect()
}

/// Labels of these that nobody vouches for.
pub(crate) fn unvouched_labels(proxy: &Proxy, keys: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let Some(admission) = &proxy.admission else { return BTreeSet::new() };
    let is_free = |key: &String| !admission.vouches_for_label(key) && !is_fact(proxy, key);
    keys.into_iter().filter(is_free).collect()
}

/// Whether a resource that is generated from Dataplanes may follow this property of one.
pub fn may_claim(proxy: &Proxy, claim: &Claim) -> bool {
    let admission = proxy.admission.as_deref();
    admission.is_none_or(|admission| admission.scope() != TokenScope::Bound || vouches_for(admission, proxy, claim))
}

fn vouches_for(admission: &Admission, proxy: &Proxy, claim: &Claim) -> bool {
    match claim {
        Claim::Name(_) => admission.name,
        // The control plane itself sets the zone tag.
        Claim::Tag(key, _) if key == tags::ZONE => true,
        Claim::Tag(key, value) => {
            let is_service = key == tags::SERVICE;
            admission.vouches_for_tag(key) || is_service && names_workload(admission, proxy, value)
        }
        Claim::Label(key, value) => {
            let is_workload = key == labels::WORKLOAD;
            admission.vouches_for_label(key)
                || is_fact(proxy, key)
                || is_workload && names_service(admission, proxy, value)
        }
    }
}

/// Whether the selector names this identity itself, and the identity is vouched for.
fn is_named(selector: &Selector, admission: &Admission, proxy: &Proxy, name: &str) -> bool {
    let is_vouched = names_service(admission, proxy, name) || names_workload(admission, proxy, name);
    is_vouched
        && claims_of(selector).any(|claim| match claim {
            Claim::Tag(key, value) => key == tags::SERVICE && value == name,
            Claim::Label(key, value) => key == labels::WORKLOAD && value == name,
            Claim::Name(_) => false,
        })
}

/// Workloads and services share their names: the mesh CA names a proxy without services by its workload.
fn names_workload(admission: &Admission, proxy: &Proxy, name: &str) -> bool {
    admission.vouches_for_label(labels::WORKLOAD) && proxy.labels.get(labels::WORKLOAD).is_some_and(|own| own == name)
}

fn names_service(admission: &Admission, proxy: &Proxy, name: &str) -> bool {
    let mut services = proxy.dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE));
    admission.vouches_for_tag(tags::SERVICE) && services.any(|own| own == name)
}

/// Labels of a proxy that somebody vouches for, and the one that chooses between the default paths of SPIFFE IDs.
pub(crate) fn vouched_labels(proxy: &Proxy) -> Labels {
    let keys = proxy.labels.keys().cloned();
    let free = unvouched_labels(proxy, keys.filter(|key| key != labels::ENV));
    let vouched = proxy.labels.iter().filter(|(key, _)| !free.contains(*key));
    vouched.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Labels with values that the control plane sets or verifies, whoever writes the Dataplane.
fn is_fact(proxy: &Proxy, key: &str) -> bool {
    match key {
        labels::PROXY_TYPE | labels::LISTENER_ZONE_INGRESS | labels::LISTENER_ZONE_EGRESS => true,
        labels::MESH => proxy.labels.get(key).is_some_and(|mesh| **mesh == *proxy.mesh),
        // A Dataplane that names another origin may name any zone.
        labels::ZONE => proxy.labels.get(labels::ORIGIN).is_some_and(|origin| origin == "zone"),
        _ => false,
    }
}

fn claims_of(selector: &Selector) -> impl Iterator<Item = Claim> {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
    let pairs = |map: &BTreeMap<String, String>, claim: fn(String, String) -> Claim| -> Vec<Claim> {
        map.iter().map(|(key, value)| claim(key.clone(), value.clone())).collect()
    };
    let claims = if let Some(wanted) = dataplane_tags {
        pairs(wanted, Claim::Tag)
    } else if let Some(reference) = dataplane_ref {
        vec![Claim::Name(reference.name.clone())]
    } else {
        let wanted = dataplane_labels.as_ref().and_then(|wanted| wanted.match_labels.as_ref());
        wanted.map(|wanted| pairs(wanted, Claim::Label)).unwrap_or_default()
    };
    claims.into_iter()
}
