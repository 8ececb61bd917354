//! Inspection of proxies for the API, from the registry, the store and Envoy's admin interface.

use std::sync::Arc;

use axum::body::Bytes;
use jiff::Timestamp;
use kodiak_api::inspect::{
    AdminQuery, CertificateStatus, Config, ConfigDiff, ConfigOptions, InspectError, InspectFuture, MtlsStep, Proxies,
    Quarantined, Status, TypeStatus,
};
use kodiak_ca::{Expiries, LeafExpiry, MeshCas};
use kodiak_engine::{admin_port, redacted};
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_pool::{Caller, Pool};
use kodiak_proxies::{ProxyStatus, Registry};
use kodiak_reconcilers::{
    AbsenceLimits, Moment,
    quarantine::{Entry, Quarantine},
};
use kodiak_store::Store;
use kodiak_traffic::Recorded;
use kodiak_xds_stream::TypeUrl;
use serde_json::Value;

use crate::{
    admin::{AdminInterface, EnvoyAdmin},
    offline::{Offline, metadata},
};

/// Limit of proxies that are named when an mTLS step waits.
const MOST_NAMED: usize = 20;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inspector {
    pub(crate) instance_id: Arc<str>,
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) mesh_cas: MeshCas,
    pub(crate) offline: Offline,
    pub(crate) admin: EnvoyAdmin,
    pub(crate) quarantine: Quarantine,
    /// Of the certificates of proxies.
    pub(crate) expiries: Expiries,
    /// For how long rollouts wait for proxies that are not connected.
    pub(crate) absence: AbsenceLimits,
    pub(crate) pool: Pool,
}

impl Inspector {
    async fn ask_envoy(&self, proxy: ProxyKey, question: AdminQuery) -> Result<Bytes, InspectError> {
        let stored = self.store.snapshot();
        let metadata = metadata(stored.world(), &proxy).ok_or(InspectError::NeverConnected)?;
        let peer = self.registry.peer(&proxy).ok_or(InspectError::NotConnected)?.ip();
        let dataplane = stored.world().proxy(&proxy).map(|proxy| proxy.dataplane.clone()).unwrap_or_default();
        let networking = dataplane.networking.clone().unwrap_or_default();
        let host = Some(networking.advertised_address).filter(|address| !address.is_empty());
        let host = host.unwrap_or(networking.address);
        let client = self.mesh_cas.admin_client().map_err(InspectError::Broken)?;
        let port = admin_port(&metadata, &dataplane);
        let interface = AdminInterface { proxy, host, port, peer };
        let answer = self.admin.get(interface, question.path(), &client).await?;
        let answer = match question {
            AdminQuery::ConfigDump { .. } => {
                let shown = self.pool.run(Caller::Known, move |_| answer.map(without_secrets)).await;
                shown.unwrap_or_else(|error| Err(InspectError::Broken(error.to_string())))?
            }
            AdminQuery::Stats { .. } | AdminQuery::Clusters { .. } => answer,
        };
        Ok(answer.into_bytes())
    }

    fn mtls_step(&self, mesh: &str) -> MtlsStep {
        let moment = Moment { now: Timestamp::now(), limits: self.absence };
        let Some(status) = kodiak_reconcilers::rollout_status(self.store.snapshot().world(), mesh, &moment) else {
            return MtlsStep { step: String::new(), target: String::new(), waiting: Vec::new() };
        };
        let waiting = status.waiting.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        MtlsStep { step: status.current.token(), target: status.target.token(), waiting }
    }
}

impl Proxies for Inspector {
    fn config(
        &self,
        proxy: &ProxyKey,
        ask: ConfigOptions,
        cancellation: &Cancellation,
    ) -> Result<Config, InspectError> {
        let published = self.registry.snapshot(proxy).filter(|_| ask == ConfigOptions::default());
        let Some(published) = published else { return self.offline.config(proxy, ask, cancellation) };
        let xds = redacted::config(&published).map_err(|error| InspectError::Broken(error.to_string()))?;
        Ok(Config { xds, diff: None })
    }

    fn diff(&self, between: ConfigDiff<'_>, cancellation: &Cancellation) -> Result<Value, InspectError> {
        self.offline.diff(between, cancellation)
    }

    fn ask(&self, proxy: ProxyKey, question: AdminQuery) -> InspectFuture<Bytes> {
        let inspector = self.clone();
        Box::pin(async move { inspector.ask_envoy(proxy, question).await })
    }

    fn traffic(&self, mesh: &str) -> (Recorded, bool) {
        (self.registry.observed_traffic(mesh), self.registry.observes_traffic())
    }

    fn quarantined(&self) -> Vec<Quarantined> {
        let held = self.quarantine.list().into_iter();
        held.map(|(key, task, Entry { revision, panicked })| Quarantined {
            key,
            revision,
            task,
            error: panicked.to_string(),
        })
        .collect()
    }

    fn status(&self, proxy: &ProxyKey) -> Option<Status> {
        let ProxyStatus { protocol, connected, version, types, published, settled, bytes_sent, faults, .. } =
            self.registry.status(proxy)?;
        let types = types.into_iter().map(|of_type| TypeStatus {
            short: short(of_type.type_url),
            type_url: of_type.type_url.as_str(),
            sent: of_type.sent,
            acknowledged: of_type.acknowledged,
            rejected: of_type.rejected,
            rejecting: of_type.rejecting,
            last_error: of_type.last_error.map(|error| error.to_string()),
        });
        Some(Status {
            control_plane_instance_id: self.instance_id.to_string(),
            protocol: match protocol {
                kodiak_ads::Protocol::Delta => "delta",
                kodiak_ads::Protocol::StateOfTheWorld => "state of the world",
            },
            connect_time: connected.to_string(),
            version,
            types: types.collect(),
            published,
            settled,
            bytes_sent,
            faults,
            mtls: self.mtls_step(&proxy.mesh),
            certificate: self.expiries.of(proxy, Timestamp::now()).map(certificate_status),
        })
    }
}

fn certificate_status(leaf: LeafExpiry) -> CertificateStatus {
    let LeafExpiry { not_after, expires_in, warning } = leaf;
    CertificateStatus { expiration_time: not_after.to_string(), expires_in, warning }
}

/// Removes the token from the bootstrap in a config dump. Envoy redacts private keys itself.
fn without_secrets(dump: &[u8]) -> Result<Vec<u8>, InspectError> {
    let dump: Result<Value, _> = serde_json::from_slice(dump);
    let mut dump = dump.map_err(|error| InspectError::Unreachable(format!("the config dump is not JSON: {error}")))?;
    redacted::redact(&mut dump);
    Ok(dump.to_string().into())
}

fn short(type_url: TypeUrl) -> &'static str {
    match type_url {
        TypeUrl::Cluster => "cds",
        TypeUrl::Endpoint => "eds",
        TypeUrl::Listener => "lds",
        TypeUrl::Route => "rds",
        TypeUrl::Secret => "sds",
    }
}
