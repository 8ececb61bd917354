//! The parts of a mesh that changes have made out of date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_rules::policy_index::PolicyKey;

use crate::target::{Target, Targets};

/// Collected while changes are applied, and consumed by the next update of the mesh.
#[derive(Default)]
pub(crate) struct DirtySet {
    /// The resource of the mesh, its rollout, its CAs or zone egresses.
    pub(crate) settings: bool,
    pub(crate) targets: BTreeSet<Target>,
    /// Policies whose `to` items changed, with the targets that the old and the new items select.
    pub(crate) policies: BTreeMap<PolicyKey, Targets>,
    /// Proxies whose own resources are out of date.
    pub(crate) proxies: BTreeSet<Arc<str>>,
    /// Proxies that may belong to another class now.
    pub(crate) reclassified: BTreeSet<Arc<str>>,
    /// Destinations whose callers may be others now.
    pub(crate) admissions: BTreeSet<Target>,
    /// Proxies that connected or disconnected, or whose insight changed.
    pub(crate) servers: BTreeSet<Arc<str>>,
    /// Dataplanes that may admit other callers now, or did for a moment.
    pub(crate) touched_servers: BTreeSet<Arc<str>>,
    /// Proxies that may present other certificates.
    pub(crate) clients: BTreeSet<Arc<str>>,
    /// A MeshHTTPRoute, which other policies may target.
    pub(crate) routes: bool,
    /// Certificates may be due for renewal.
    pub(crate) tick: bool,
}
