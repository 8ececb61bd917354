//! Streams on which proxies report their traffic. Reports go to `traffic`.

use kodiak_ads::{Closing, LoadHello, LoadReport, LoadSession};
use kodiak_envoy::envoy::config::endpoint::v3::ClusterStats;
use kodiak_model::ProxyKey;
use kodiak_traffic::Recorded;
use tokio::sync::watch;

use crate::{
    Registry, TrafficSettings,
    admission::{closing, metadata_of, proxy_of},
    sessions::LoadStream,
};

impl Registry {
    pub(crate) fn admit_load(&self, hello: &LoadHello) -> Result<LoadSession, Closing> {
        let admitted = self.try_admit_load(hello);
        if let Err(refused) = &admitted {
            self.refused(refused);
        }
        admitted
    }

    /// Admits by the same rules as the stream of health checks.
    fn try_admit_load(&self, hello: &LoadHello) -> Result<LoadSession, Closing> {
        let Some(TrafficSettings { interval, .. }) = self.0.settings.traffic else {
            return Err(closing(Closing::UNIMPLEMENTED, "traffic observation is off in this control plane"));
        };
        if self.is_stopping() {
            return Err(closing(Closing::UNAVAILABLE, "this control plane is stopping"));
        }
        let key = proxy_of(&hello.node)?;
        let proof = self.identify(&key, &hello.credential)?;
        let metadata = metadata_of(&hello.node)?;
        self.check(&key, &proof, metadata.resource.as_deref())?;
        let (closing, closing_of_session) = watch::channel(None);
        let (configured, configured_of_session) = watch::channel(());
        let id = self.0.sessions.next_id();
        let (credential, expires) = (hello.credential.clone(), proof.expires());
        self.0.sessions.open_load(&key, LoadStream { id, credential, expires, closing, configured });
        tracing::debug!(proxy = %key, peer = %hello.peer, "proxy opened a stream of load reports");
        if self.0.catalog.store().get(&key.dataplane()).is_some() {
            // Its token may have been revoked meanwhile, when there was no stream yet to close.
            self.recheck_proxy(&key);
        }
        let report = Box::new(LoadReporter { registry: self.clone(), key, id });
        Ok(LoadSession { interval, configured: configured_of_session, closing: closing_of_session, report })
    }

    /// Traffic of a mesh that all control planes have observed; of others, what they have stored.
    pub fn observed_traffic(&self, mesh: &str) -> Recorded {
        self.0.traffic.of_mesh(mesh)
    }

    /// Writes observed traffic now, and not only when it is due.
    pub async fn flush_traffic(&self) {
        self.0.traffic.flush().await;
    }

    /// Whether proxies of this control plane report their traffic.
    pub fn observes_traffic(&self) -> bool {
        self.0.settings.traffic.is_some()
    }
}

/// Receives the reports of a stream from the port. Dropping it means that the stream has ended.
struct LoadReporter {
    registry: Registry,
    key: ProxyKey,
    id: u64,
}

impl LoadReport for LoadReporter {
    fn report(&mut self, clusters: Vec<ClusterStats>) {
        // An older stream of the proxy may still deliver what Envoy has not counted again on the newer one.
        self.registry.0.traffic.report(&self.key, &clusters, self.registry.now());
    }
}

impl Drop for LoadReporter {
    fn drop(&mut self) {
        self.registry.0.sessions.close_load(&self.key, self.id);
    }
}
