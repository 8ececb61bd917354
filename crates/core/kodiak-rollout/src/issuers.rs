//! Issuers of the certificates of proxies: a backend of the mesh, and MeshIdentities.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{LabelSelector, Labels};
use serde::{Deserialize, Serialize};

use crate::AppliedBackend;

/// Issuers of a step. A proxy gets its certificate from the MeshIdentity that selects it, else from the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Issuers {
    /// Backend of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<AppliedBackend>,
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<Arc<AppliedIdentity>>,
    /// Labels from which the SPIFFE IDs of these proxies follow, by name, instead of those of their Dataplanes, which a
    /// user has changed meanwhile. The target has none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub presented: BTreeMap<Arc<str>, Arc<Labels>>,
}

/// A MeshIdentity as a step applies it. An edit of the resource is another one, so that certificates of both can be in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedIdentity {
    pub name: Arc<str>,
    pub kri: Arc<str>,
    pub selector: Selector,
    pub trust_domain: Arc<str>,
    /// Template. `None`: the default for the environment of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// `None`: clients expect the SPIFFE IDs, and nobody gets a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppliedProvider>,
}

/// Labels of the proxies that an identity selects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(pub BTreeMap<String, String>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum AppliedProvider {
    /// The control plane issues certificates of this CA.
    #[serde(rename_all = "camelCase")]
    Bundled {
        /// SHA-256 of the CA certificate, in hex.
        ca: Arc<str>,
        /// Lifetime of certificates.
        seconds: u64,
    },
    /// The SPIRE agent beside the proxy issues certificates.
    #[serde(rename_all = "camelCase")]
    Spire {
        /// For connecting to the agent.
        timeout_milliseconds: u64,
    },
}

impl Selector {
    pub fn of(selector: &LabelSelector) -> Self {
        Self(selector.match_labels.clone().unwrap_or_default())
    }
}

impl Issuers {
    /// Whether no proxy gets a certificate.
    pub fn is_empty(&self) -> bool {
        self.signer.is_none() && self.identities.iter().all(|identity| identity.provider.is_none())
    }

    /// Whether one has this name, as DataplaneInsights show it: a backend, or the KRI of a MeshIdentity.
    pub fn has(&self, name: &str) -> bool {
        self.signer.as_ref().is_some_and(|signer| *signer.name == *name)
            || self.identities.iter().any(|identity| *identity.kri == *name)
    }

    /// Whether a change to `other` neither alters which proxies have a certificate nor which SPIFFE IDs they have.
    pub(crate) fn is_same_to_clients(&self, other: &Self) -> bool {
        let Self { signer, identities, presented } = self;
        signer.is_some() == other.signer.is_some() && *identities == other.identities && *presented == other.presented
    }
}
