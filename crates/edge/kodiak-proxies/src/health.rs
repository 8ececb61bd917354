//! Streams on which proxies get health checks of their workloads to run, and report the results.
//!
//! The checks follow from the Dataplane, and are sent again whenever that changes. Results go to `readiness`.

use kodiak_ads::{Closing, HealthHello, HealthReport, HealthSession};
use kodiak_envoy::envoy::service::health::v3::EndpointHealthResponse;
use kodiak_model::ProxyKey;
use kodiak_xds::{
    health::{self, Findings},
    node::NodeMetadata,
};
use tokio::sync::watch;

use crate::{
    Registry,
    admission::{closing, metadata_of, proxy_of},
    credential::VerifiedToken,
    dataplane::EffectiveDataplane,
    sessions::HealthStream,
    stored,
};

impl Registry {
    pub(crate) fn admit_health(&self, hello: &HealthHello) -> Result<HealthSession, Closing> {
        let admitted = self.try_admit_health(hello);
        if let Err(refused) = &admitted {
            self.refused(refused);
        }
        admitted
    }

    /// Admits by the same rules as the ADS stream. That one registers the Dataplane; this one may be earlier, and then waits
    /// for it.
    fn try_admit_health(&self, hello: &HealthHello) -> Result<HealthSession, Closing> {
        if self.0.settings.health.is_none() {
            return Err(closing(Closing::UNIMPLEMENTED, "health checks are off in this control plane"));
        }
        if self.is_stopping() {
            return Err(closing(Closing::UNAVAILABLE, "this control plane is stopping"));
        }
        let key = proxy_of(&hello.node)?;
        let proof = self.identify(&key, &hello.credential)?;
        let metadata = metadata_of(&hello.node)?;
        self.check(&key, &proof, metadata.resource.as_deref())?;
        let session = self.open_health(&key, hello, metadata, &proof);
        self.refresh_checks(&key);
        if self.0.catalog.store().get(&key.dataplane()).is_some() {
            // Its token may have been revoked meanwhile, when there was no stream yet to close.
            self.recheck_proxy(&key);
        }
        Ok(session)
    }

    fn open_health(
        &self,
        key: &ProxyKey,
        hello: &HealthHello,
        metadata: NodeMetadata,
        proof: &VerifiedToken,
    ) -> HealthSession {
        let (checks, checks_of_session) = watch::channel(None);
        let (closing, closing_of_session) = watch::channel(None);
        let id = self.0.sessions.next_id();
        let stream = HealthStream {
            id,
            credential: hello.credential.clone(),
            expires: proof.expires(),
            closing,
            checks,
            // The Dataplane that it provides is stored by now, or will be.
            node: NodeMetadata { resource: None, ..metadata },
            revision: 0,
        };
        self.0.sessions.open_health(key, stream);
        self.0.readiness.probes_opened(key, id);
        if let Some(observer) = &self.0.settings.observer {
            observer.health_stream_opened();
        }
        tracing::debug!(proxy = %key, peer = %hello.peer, "proxy opened a stream of health checks");
        let report = Box::new(HealthReporter { registry: self.clone(), key: key.clone(), id });
        HealthSession { checks: checks_of_session, closing: closing_of_session, report }
    }

    /// To be called when a Dataplane was changed or deleted: the proxy gets the health checks that it defines now.
    pub fn refresh_checks(&self, key: &ProxyKey) {
        let snapshot = self.0.catalog.store().snapshot();
        if snapshot.get(&key.dataplane()).is_none() {
            self.0.readiness.deleted(key, snapshot.revision());
        }
        let Some(timing) = &self.0.settings.health else { return };
        if !self.0.sessions.has_health(key) {
            return;
        }
        let known = stored::dataplane(&snapshot, key);
        let checks = |node: &NodeMetadata| health::specifier(&known.as_ref()?.spec, node, timing);
        let sent = self.0.sessions.send_checks(key, snapshot.revision(), checks);
        if let (Some(true), Some(observer)) = (sent, &self.0.settings.observer) {
            observer.health_checks_sent();
        }
        if let Some(EffectiveDataplane { spec, .. }) = known.filter(|_| sent.is_some()) {
            self.0.readiness.changed(key, spec);
        }
    }
}

/// Receives the reports of a stream from the port. Dropping it means that the stream has ended.
struct HealthReporter {
    registry: Registry,
    key: ProxyKey,
    id: u64,
}

impl HealthReport for HealthReporter {
    fn report(&mut self, found: EndpointHealthResponse) {
        if let Some(observer) = &self.registry.0.settings.observer {
            observer.health_reported();
        }
        self.registry.0.readiness.probed(&self.key, self.id, Findings::read(found));
    }
}

impl Drop for HealthReporter {
    fn drop(&mut self) {
        self.registry.0.sessions.close_health(&self.key, self.id);
        self.registry.0.readiness.probes_closed(&self.key, self.id);
        if let Some(observer) = &self.registry.0.settings.observer {
            observer.health_stream_closed();
        }
    }
}
