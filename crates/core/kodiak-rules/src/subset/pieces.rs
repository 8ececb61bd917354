//! Converts policy items to pieces: tags and a conf.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    TargetKind, TargetRef, Word as _,
    policy::{Conf, ConfShape},
    tags::SERVICE,
};

use super::{ROUTE_HASH, RuleError};
use crate::{Policy, Resources, merge, outbound::is_for_route, route_hash, routes};

pub(super) type Tags = BTreeMap<String, String>;

pub(super) struct Piece {
    pub(super) tags: Tags,
    pub(super) conf: Conf,
    pub(super) policy: Arc<Policy>,
}

pub(super) fn from(policies: &[Arc<Policy>]) -> Result<Vec<Piece>, RuleError> {
    let mut pieces = Vec::new();
    for policy in policies {
        for item in &policy.body.from {
            if let Some(tags) = tags(&item.target)? {
                pieces.push(Piece { tags, conf: item.conf.clone(), policy: policy.clone() });
            }
        }
    }
    Ok(pieces)
}

/// Without resources, policies for a route are skipped: their target cannot be resolved.
pub(super) fn to(policies: &[Arc<Policy>], resources: Option<&Resources>) -> Result<Vec<Piece>, RuleError> {
    let mut pieces = Vec::new();
    for policy in policies.iter().filter(|policy| !names_routes(policy)) {
        if is_for_route(policy) {
            if let Some(resources) = resources {
                of_route(policy, resources, &mut pieces)?;
            }
            continue;
        }
        let shape = policy.kind.policy.map_or(ConfShape::Default, |facts| facts.conf);
        for item in policy.body.to.iter().filter(|item| !has_section(&item.target)) {
            if let Some(tags) = tags(&item.target)? {
                pieces.push(Piece { tags, conf: merge::conf_of(shape, item), policy: policy.clone() });
            }
        }
    }
    Ok(pieces)
}

/// Routes are resources: a policy about them applies to resources only.
fn names_routes(policy: &Policy) -> bool {
    policy.body.to.iter().any(|item| item.target.known_kind() == Some(TargetKind::MeshHTTPRoute))
}

/// A section references a MeshService, never a `kuma.io/service`.
fn has_section(target: &TargetRef) -> bool {
    target.known_kind() == Some(TargetKind::MeshService) && target.has_section()
}

/// A policy for a route applies to every rule of the route, for all its backends.
fn of_route(policy: &Arc<Policy>, resources: &Resources, pieces: &mut Vec<Piece>) -> Result<(), RuleError> {
    let name = policy.body.target.as_ref().and_then(|target| target.name.as_deref()).unwrap_or_default();
    let Some(route) = resources.route(&policy.mesh, name) else {
        return Err(RuleError::Unfit("can't resolve MeshHTTPRoute policy".to_owned()));
    };
    for destination in route.body.to.iter().filter(|item| !has_section(&item.target)) {
        for matches in routes::matches(&destination.conf) {
            let mut tags = Tags::from([(ROUTE_HASH.to_owned(), route_hash(matches))]);
            let kind = destination.target.known_kind();
            if !matches!(kind, Some(TargetKind::Mesh | TargetKind::MeshSubset)) {
                tags.insert(SERVICE.to_owned(), destination.target.name.clone().unwrap_or_default());
            }
            let said = policy.body.to.iter();
            pieces.extend(said.map(|item| Piece {
                tags: tags.clone(),
                conf: item.conf.clone(),
                policy: policy.clone(),
            }));
        }
    }
    Ok(())
}

/// `None` for resources: they have no tags.
fn tags(target: &TargetRef) -> Result<Option<Tags>, RuleError> {
    let service = || (SERVICE.to_owned(), target.name.clone().unwrap_or_default());
    let tags = || target.tags.clone().unwrap_or_default();
    Ok(match target.known_kind() {
        Some(TargetKind::Mesh) => Some(Tags::new()),
        Some(TargetKind::MeshSubset) => Some(tags()),
        Some(TargetKind::MeshService) => Some(Tags::from([service()])),
        Some(TargetKind::MeshServiceSubset) => Some(tags().into_iter().chain([service()]).collect()),
        Some(kind @ (TargetKind::MeshGateway | TargetKind::MeshHTTPRoute)) => {
            return Err(RuleError::Unfit(format!("can't represent {} as tags", kind.text())));
        }
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService | TargetKind::Dataplane) | None => None,
    })
}
