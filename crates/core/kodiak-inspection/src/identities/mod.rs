//! Certificates of the proxies of a mesh: MeshIdentities with their status, the issuer of each proxy now and at the target of
//! the rollout, and how far each proxy is on the way there.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_identity::{Identity, Issuer, Moment, RolloutStatus, applied_id, best_match, issuer_of, rollout_status};
use kodiak_model::{
    Cancellation, Cancelled, Condition, Kri,
    kinds::{
        dataplane_insight::MtlsInsight,
        mesh_identity::{KIND, MeshIdentityStatus},
    },
};
use kodiak_rollout::{AppliedIdentity, Rollout};
use kodiak_rules::Proxy;
use kodiak_world::{Resource, World};

/// Trust domain of the identity with default settings, which only checks labels.
const ANY_TRUST_DOMAIN: &str = "mesh.local";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshIdentities {
    pub rollout: RolloutStatus,
    /// By name.
    pub identities: Vec<IdentityStatus>,
    /// By name.
    pub proxies: Vec<ProxyIdentity>,
}

/// A MeshIdentity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityStatus {
    pub name: Arc<str>,
    pub kri: String,
    /// `None` if its template gives none.
    pub trust_domain: Option<String>,
    pub ready: bool,
    /// The control plane has not added it, or its last edit, to the target of the rollout yet.
    pub pending: bool,
    /// Condition that is `False`; the most specific one.
    pub failure: Option<ConditionFailure>,
    /// Number of Dataplanes that get their certificate from it at the target.
    pub selected: usize,
    /// It has no provider: clients expect its SPIFFE IDs, and nobody gets a certificate.
    pub announced_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionFailure {
    pub reason: String,
    pub message: String,
}

/// Certificate of a proxy, and its progress towards the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyIdentity {
    pub name: Arc<str>,
    pub connected: bool,
    /// Certificate in use, as the control plane observed it.
    pub certificate: MtlsInsight,
    /// Backend, or KRI of the MeshIdentity, that issues its certificate at the target. `None`: it has no certificate there.
    pub wanted: Option<Arc<str>>,
    pub progress: ProxyProgress,
    /// Why the MeshIdentity that selects it gives it no SPIFFE ID.
    pub problem: Option<String>,
    /// Without a MeshIdentity that selects it: why one with the default path would give it no SPIFFE ID.
    pub default_path_problem: Option<String>,
}

/// Progress of a proxy. An offline proxy has acknowledged nothing.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one proxy")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyProgress {
    /// It trusts every CA of the target.
    pub has_bundle: bool,
    /// It expects the SPIFFE IDs of certificates of the target.
    pub expects_san: bool,
    /// Its certificate is from the issuer of the target.
    pub presents_leaf: bool,
    /// It acknowledged the current step.
    pub acknowledged: bool,
}

impl MeshIdentities {
    /// `None` without the mesh. `zone` is that of the control plane.
    pub fn of(
        world: &World,
        mesh: &str,
        zone: &str,
        moment: &Moment,
        cancellation: &Cancellation,
    ) -> Result<Option<Self>, Cancelled> {
        let Some(rollout) = rollout_status(world, mesh, moment) else { return Ok(None) };
        let token = rollout.current.token();
        let (mut proxies, mut selected) = (Vec::new(), BTreeMap::<Arc<str>, usize>::new());
        for proxy in world.proxies(mesh) {
            cancellation.check()?;
            let matching = best_match(&rollout.target.issuers, proxy).map(|(identity, _)| identity);
            if let Some(identity) = matching {
                *selected.entry(identity.kri.clone()).or_default() += 1;
            }
            proxies.push(ProxyIdentity::of(world, proxy, matching, &rollout, &token));
        }
        let identities = world.list_in("MeshIdentity", mesh);
        let identities = identities.filter_map(|found| IdentityStatus::of(found, &rollout.target, zone, &selected));
        Ok(Some(Self { identities: identities.collect(), proxies, rollout }))
    }
}

impl IdentityStatus {
    /// `None` without a readable version.
    fn of(resource: &Resource, target: &Rollout, zone: &str, selected: &BTreeMap<Arc<str>, usize>) -> Option<Self> {
        let identity = Identity::of(resource)?;
        let kri = Kri::of(&KIND, &identity.mesh, &identity.name, &identity.labels)?.to_string();
        let status = resource.status::<MeshIdentityStatus>();
        let is_false = |condition: &&Condition| condition.status == "False";
        // `Ready` only says that another one is not.
        let specific = status.conditions.iter().filter(is_false).find(|condition| condition.condition_type != "Ready");
        let failure = specific.or_else(|| status.conditions.iter().find(is_false));
        let applied = target.issuers.identities.iter().find(|applied| *applied.kri == *kri);
        Some(Self {
            trust_domain: identity.trust_domain(zone).ok(),
            ready: identity.ready,
            pending: !identity.failed && is_pending(&identity, applied.map(|applied| &**applied), zone),
            failure: failure.map(|Condition { reason, message, .. }| ConditionFailure {
                reason: reason.clone(),
                message: message.clone(),
            }),
            selected: selected.get(kri.as_str()).copied().unwrap_or_default(),
            announced_only: identity.spec.provider.is_none(),
            name: identity.name,
            kri,
        })
    }
}

/// Whether the target has another version of it, or none.
fn is_pending(identity: &Identity, applied: Option<&AppliedIdentity>, zone: &str) -> bool {
    let Some(Ok(written)) = identity.applied(zone, None) else { return false };
    applied.is_none_or(|applied| AppliedIdentity { provider: None, ..applied.clone() } != written)
}

impl ProxyIdentity {
    /// `matching`: the MeshIdentity that selects it at the target. `token`: that of the current step.
    fn of(
        world: &World,
        proxy: &Proxy,
        matching: Option<&Arc<AppliedIdentity>>,
        rollout: &RolloutStatus,
        token: &str,
    ) -> Self {
        let RolloutStatus { current, target, .. } = rollout;
        let insight = world.insight(&proxy.key()).unwrap_or_default();
        let connected = insight.is_online();
        let certificate = insight.mtls.clone().unwrap_or_default();
        let wanted = issuer_of(&target.issuers, proxy);
        let acknowledged = connected && certificate.acknowledged == token;
        let progress = ProxyProgress {
            has_bundle: acknowledged && current.trusts(target),
            expects_san: acknowledged && current.expects(target),
            presents_leaf: wanted.as_ref().is_some_and(|wanted| is_issued_by(&certificate, wanted)),
            acknowledged,
        };
        let no_id = |identity: &AppliedIdentity| applied_id(identity, proxy).err().map(|error| error.to_string());
        Self {
            name: proxy.name.clone(),
            connected,
            certificate,
            wanted: wanted.map(|wanted| match wanted {
                Issuer::Backend(backend) => backend.name.clone(),
                Issuer::Identity { identity, .. } => identity.kri.clone(),
            }),
            progress,
            problem: matching.and_then(|identity| no_id(identity)),
            default_path_problem: if matching.is_none() { no_id(&with_default_path()) } else { None },
        }
    }
}

/// An edit of a MeshIdentity may change the SPIFFE ID. That of a certificate from SPIRE is unknown.
fn is_issued_by(certificate: &MtlsInsight, wanted: &Issuer<'_>) -> bool {
    let MtlsInsight { issued_backend, spiffe_id: issued_id, .. } = certificate;
    match wanted {
        Issuer::Backend(backend) => *issued_backend == *backend.name,
        Issuer::Identity { identity, spiffe_id, .. } => {
            *issued_backend == *identity.kri && (issued_id.is_empty() || issued_id == spiffe_id)
        }
    }
}

fn with_default_path() -> AppliedIdentity {
    AppliedIdentity { trust_domain: ANY_TRUST_DOMAIN.into(), ..AppliedIdentity::default() }
}
