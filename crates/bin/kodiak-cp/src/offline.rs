//! Configuration of proxies, computed from the store alone.

use std::sync::Arc;

use axum::body::Bytes;
use kodiak_api::inspect::{
    AdminQuery, Config, ConfigDiff, ConfigOptions, InspectError, InspectFuture, Proxies, Status,
};
use kodiak_catalog::FileSources;
use kodiak_engine::{EngineChange, EngineSettings, offline::OfflineMesh, patch, redacted};
use kodiak_envoy::json;
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_rules::Shadow;
use kodiak_services::service_status;
use kodiak_store::{Snapshot, Store};
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::Snapshot as Published;
use serde_json::{Value, json};

use crate::{diff, stored_identities::StoredIdentities};

/// Cheap to clone.
#[derive(Clone)]
pub struct Offline {
    store: Store,
    settings: EngineSettings,
    services: service_status::ServiceSettings,
    files: FileSources,
}

impl Offline {
    pub fn new(store: Store, settings: EngineSettings, services: service_status::ServiceSettings) -> Self {
        Self { store, settings, services, files: FileSources::default() }
    }

    /// Allows file data sources.
    pub(crate) fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    /// Resources of one proxy.
    pub(crate) fn set(
        &self,
        stored: &Snapshot,
        proxy: &ProxyKey,
        shadow: Shadow,
        cancellation: &Cancellation,
    ) -> Result<Arc<Published>, InspectError> {
        let metadata = metadata(stored.world(), proxy).ok_or(InspectError::NeverConnected)?;
        let changes = EngineChange::of_mesh(stored.world(), &proxy.mesh);
        let settings = EngineSettings { shadow, cancellation: cancellation.clone(), ..self.settings.clone() };
        let identities = StoredIdentities::new(stored.clone(), self.files.clone());
        let world = OfflineMesh::with_identities(settings, &proxy.mesh, changes, Arc::new(identities));
        let made = world.and_then(|mut world| world.connect(proxy, Arc::new(metadata)));
        cancellation.check()?;
        made.map_err(InspectError::Faults)
    }
}

/// For an API without a proxy port.
impl Proxies for Offline {
    fn config(
        &self,
        proxy: &ProxyKey,
        ask: ConfigOptions,
        cancellation: &Cancellation,
    ) -> Result<Config, InspectError> {
        let stored = self.store.snapshot();
        let now = |shadow| {
            let set = self.set(&stored, proxy, shadow, cancellation)?;
            redacted::config(&set).map_err(|error| broken(&error))
        };
        let xds = now(if ask.shadow { Shadow::Included } else { Shadow::Ignored })?;
        let diff = if ask.diff { Some(json!(patch::patch(&now(Shadow::Ignored)?, &xds))) } else { None };
        Ok(Config { xds, diff })
    }

    fn diff(&self, between: ConfigDiff<'_>, cancellation: &Cancellation) -> Result<Value, InspectError> {
        let settings = EngineSettings { cancellation: cancellation.clone(), ..self.settings.clone() };
        diff::of(between, settings, &self.services, &self.files)
    }

    fn ask(&self, _: ProxyKey, _: AdminQuery) -> InspectFuture<Bytes> {
        Box::pin(async { Err(InspectError::NeverConnected) })
    }

    fn status(&self, _: &ProxyKey) -> Option<Status> {
        None
    }
}

/// Metadata of the proxy's last connection, to any control plane.
pub(crate) fn metadata(stored: &kodiak_world::World, proxy: &ProxyKey) -> Option<NodeMetadata> {
    let insight = stored.insight(proxy)?;
    let said = insight.metadata.as_ref().and_then(|metadata| json::from_json(metadata).ok());
    Some(said.map_or_else(NodeMetadata::default, |said| NodeMetadata::read(&said)))
}

pub(crate) fn broken(error: &dyn std::error::Error) -> InspectError {
    InspectError::Broken(error.to_string())
}
