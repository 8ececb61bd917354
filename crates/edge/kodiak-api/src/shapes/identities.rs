//! `/meshes/{mesh}/_identities`.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::RolloutStatus;
use kodiak_inspection::identities::{self as facts, ConditionFailure, ProxyProgress};
use kodiak_model::kinds::dataplane_insight::MtlsInsight;
use kodiak_rollout::{AppliedProvider, Phase, WaitReason, Waiting};
use serde::Serialize;

/// Limit of proxies that are named when a step waits.
const MOST_NAMED: usize = 20;

#[derive(Serialize)]
pub(crate) struct CertificateReport {
    mesh: String,
    rollout: RolloutStep,
    identities: Vec<Identity>,
    proxies: Vec<ProxyIdentity>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RolloutStep {
    current: String,
    target: String,
    /// Phase of the next step; absent at the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    waiting: Vec<WaitingProxy>,
    /// Including those that are not named.
    waiting_total: usize,
    /// Time until which old trust is kept for proxies that are not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_trust_until: Option<String>,
    /// Records of the control plane that cannot be read; the rollout waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<&'static str>,
    /// Bundles of MeshTrusts that are stored and not trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<Arc<str>>,
    /// MeshIdentities whose certificates come from SPIRE agents, so their issue is not ordered.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    from_agents: BTreeSet<Arc<str>>,
    /// Proxies whose labels changed, and that keep their SPIFFE ID until all clients expect the new one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    relabelled: BTreeSet<Arc<str>>,
}

#[derive(Serialize)]
struct WaitingProxy {
    proxy: String,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: String,
    kri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_domain: Option<String>,
    ready: bool,
    pending: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    selected: usize,
    announced_only: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about one proxy")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProxyIdentity {
    name: String,
    connected: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer: String,
    #[serde(rename = "spiffeID", skip_serializing_if = "String::is_empty")]
    spiffe_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    serial_number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_rotation: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    renewal_error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    has_bundle: bool,
    #[serde(rename = "expectsSAN")]
    expects_san: bool,
    presents_leaf: bool,
    acknowledged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_path_problem: Option<String>,
}

impl CertificateReport {
    pub(crate) fn of(mesh: &str, found: facts::MeshIdentities) -> Self {
        let facts::MeshIdentities { rollout, identities, proxies } = found;
        Self {
            mesh: mesh.to_owned(),
            rollout: rollout.into(),
            identities: identities.into_iter().map(Into::into).collect(),
            proxies: proxies.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<RolloutStatus> for RolloutStep {
    fn from(RolloutStatus { current, target, next, waiting, unreadable, ignored }: RolloutStatus) -> Self {
        let old_trust = waiting.iter().filter_map(|waiting| match waiting.reason {
            WaitReason::OldTrust { until } => Some(until),
            _ => None,
        });
        let old_trust_until = old_trust.max().map(|until| until.to_string());
        let identities = current.all_issuers().chain([&target.issuers]).flat_map(|issuers| &issuers.identities);
        let of_agents = identities.filter(|identity| matches!(identity.provider, Some(AppliedProvider::Spire { .. })));
        let relabelled = current.all_issuers().flat_map(|issuers| issuers.presented.keys().cloned());
        let named = waiting
            .iter()
            .take(MOST_NAMED)
            .map(|Waiting { proxy, reason }| WaitingProxy { proxy: proxy.to_string(), reason: reason.to_string() });
        Self {
            current: current.token(),
            target: target.token(),
            phase: next.map(|phase| match phase {
                Phase::Trust => "Trust",
                Phase::Expect => "Expect",
                Phase::Issue => "Issue",
                Phase::Encrypt => "Encrypt",
                Phase::Remove => "Remove",
            }),
            waiting: named.collect(),
            waiting_total: waiting.len(),
            old_trust_until,
            unreadable,
            ignored,
            from_agents: of_agents.map(|identity| identity.name.clone()).collect(),
            relabelled: relabelled.collect(),
        }
    }
}

impl From<facts::IdentityStatus> for Identity {
    fn from(status: facts::IdentityStatus) -> Self {
        let facts::IdentityStatus { name, kri, trust_domain, ready, pending, failure, selected, announced_only } =
            status;
        let (reason, message) = failure.map(|ConditionFailure { reason, message }| (reason, message)).unzip();
        Self { name: name.to_string(), kri, trust_domain, ready, pending, reason, message, selected, announced_only }
    }
}

impl From<facts::ProxyIdentity> for ProxyIdentity {
    fn from(proxy: facts::ProxyIdentity) -> Self {
        let facts::ProxyIdentity { name, connected, certificate, wanted, progress, problem, default_path_problem } =
            proxy;
        let ProxyProgress { has_bundle, expects_san, presents_leaf, acknowledged } = progress;
        let MtlsInsight {
            issued_backend,
            spiffe_id,
            serial_number,
            certificate_expiration_time,
            next_rotation,
            renewal_error,
            ..
        } = certificate;
        Self {
            name: name.to_string(),
            connected,
            issuer: issued_backend,
            spiffe_id,
            serial_number,
            expires: certificate_expiration_time,
            next_rotation,
            renewal_error,
            wanted: wanted.map(|wanted| wanted.to_string()),
            has_bundle,
            expects_san,
            presents_leaf,
            acknowledged,
            problem,
            default_path_problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use kodiak_rollout::{AppliedIdentity, Issuers, Rollout};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_ordered_or_kept_is_named() {
        let identity = AppliedIdentity {
            name: "agents".into(),
            provider: Some(AppliedProvider::Spire { timeout_milliseconds: 1 }),
            ..AppliedIdentity::default()
        };
        let issuers = Issuers {
            identities: vec![Arc::new(identity)],
            presented: [("web-1".into(), Arc::default())].into(),
            ..Issuers::default()
        };
        let status = RolloutStatus {
            current: Rollout { issuers, ..Rollout::default() },
            target: Rollout::default(),
            next: None,
            waiting: Vec::new(),
            unreadable: Vec::new(),
            ignored: Vec::new(),
        };
        let shown = serde_json::to_value(RolloutStep::from(status)).unwrap();
        assert_eq!((&shown["fromAgents"], &shown["relabelled"]), (&json!(["agents"]), &json!(["web-1"])));
    }
}
