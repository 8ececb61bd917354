//! Answer of `GET /meshes/{mesh}/_identities`: certificates of proxies, and their progress in a rollout.

use kodiak_client::{Client, ClientError};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MeshIdentities {
    pub(crate) mesh: String,
    pub(crate) rollout: RolloutStep,
    pub(crate) identities: Vec<IdentityStatus>,
    pub(crate) proxies: Vec<ProxyIdentity>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RolloutStep {
    pub(crate) current: String,
    pub(crate) target: String,
    /// Phase of the next step. `None` at the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    pub(crate) waiting: Vec<WaitingProxy>,
    pub(crate) waiting_total: usize,
    /// Time until which old trust is kept for proxies that are not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old_trust_until: Option<String>,
    /// Records of the control plane that cannot be read; the rollout waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<String>,
    /// Bundles of MeshTrusts that are stored and not trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignored: Vec<String>,
    /// MeshIdentities whose certificates come from SPIRE agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) from_agents: Vec<String>,
    /// Proxies that keep the SPIFFE ID of their labels before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) relabelled: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WaitingProxy {
    pub(crate) proxy: String,
    pub(crate) reason: String,
}

/// A MeshIdentity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IdentityStatus {
    pub(crate) name: String,
    pub(crate) kri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trust_domain: Option<String>,
    pub(crate) ready: bool,
    pub(crate) pending: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) selected: usize,
    pub(crate) announced_only: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about one proxy")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProxyIdentity {
    pub(crate) name: String,
    pub(crate) connected: bool,
    /// Backend, or KRI of the MeshIdentity, of its certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) issuer: String,
    #[serde(rename = "spiffeID", skip_serializing_if = "String::is_empty")]
    pub(crate) spiffe_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) serial_number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_rotation: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) renewal_error: String,
    /// Issuer at the target. `None`: no certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<String>,
    pub(crate) has_bundle: bool,
    #[serde(rename = "expectsSAN")]
    pub(crate) expects_san: bool,
    pub(crate) presents_leaf: bool,
    pub(crate) acknowledged: bool,
    /// Why the MeshIdentity that selects it gives it no SPIFFE ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Without such a MeshIdentity: why one with the default path would give it none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_path_problem: Option<String>,
}

impl MeshIdentities {
    pub(crate) async fn read(client: &Client, mesh: &str) -> Result<Self, ClientError> {
        client.identities(mesh).await
    }

    /// Name of the MeshIdentity or of the backend.
    pub(crate) fn issuer<'a>(&'a self, issuer: &'a str) -> &'a str {
        let identity = self.identities.iter().find(|identity| identity.kri == issuer);
        match identity {
            Some(identity) => &identity.name,
            None if issuer.is_empty() => "-",
            None => issuer,
        }
    }

    pub(crate) fn connected(&self) -> impl Iterator<Item = &ProxyIdentity> {
        self.proxies.iter().filter(|proxy| proxy.connected)
    }

    /// Whether the rollout is at its target, and every connected proxy has followed.
    pub(crate) fn is_done(&self) -> bool {
        self.rollout.phase.is_none()
            && self.rollout.unreadable.is_empty()
            && !self.identities.iter().any(|identity| identity.pending)
            && self.connected().all(ProxyIdentity::is_done)
    }

    /// MeshIdentities that should issue, and whose provider failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &IdentityStatus> {
        let issuing = self.identities.iter().filter(|identity| !identity.announced_only);
        issuing.filter(|identity| !identity.ready && identity.reason.is_some())
    }
}

impl IdentityStatus {
    /// `MeshIdentity web is not ready: reason: message`
    pub(crate) fn failure(&self) -> String {
        let (reason, message) =
            (self.reason.as_deref().unwrap_or_default(), self.message.as_deref().unwrap_or_default());
        format!("MeshIdentity {:?} is not ready: {reason}: {message}", self.name)
    }
}

impl ProxyIdentity {
    pub(crate) fn is_done(&self) -> bool {
        self.acknowledged && (self.presents_leaf || self.wanted.is_none())
    }
}
