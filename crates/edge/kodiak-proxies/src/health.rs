//! What proxies find out about the workloads beside them.
//!
//! A proxy has a second stream for it, on which it is told what to check: what follows from its Dataplane, and again
//! whenever that is changed. What it reports is kept; only what is new is written down, by `health_write`.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential, HealthHello, HealthReport, HealthSession};
use kodiak_envoy::envoy::service::health::v3::{EndpointHealthResponse, HealthCheckSpecifier};
use kodiak_model::ProxyKey;
use kodiak_xds::{
    health::{self, Findings},
    node::NodeMetadata,
};
use tokio::sync::watch;

use crate::{
    Registry,
    admission::{closing, metadata_of, proxy_of},
    credential::Proof,
    dataplane::{self, InForce},
    sessions::stream,
};

/// The open stream of health checks of a proxy.
pub(crate) struct HealthStream {
    pub(crate) id: u64,
    pub(crate) credential: Credential,
    /// When its token is worth nothing any more.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    checks: watch::Sender<Option<Arc<HealthCheckSpecifier>>>,
    node: NodeMetadata,
    /// Of the store, when it was last worked out what to check.
    revision: u64,
}

impl Registry {
    pub(crate) fn admit_health(&self, hello: &HealthHello) -> Result<HealthSession, Closing> {
        let admitted = self.try_admit_health(hello);
        if let Err(refused) = &admitted {
            self.refused(refused);
        }
        admitted
    }

    /// As the other stream of the proxy. That one brings the Dataplane; this one may be earlier, and then waits for it.
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
            // Its token may have been revoked meanwhile, when there was no stream yet to be closed.
            self.recheck_proxy(&key);
        }
        Ok(session)
    }

    fn open_health(&self, key: &ProxyKey, hello: &HealthHello, metadata: NodeMetadata, proof: &Proof) -> HealthSession {
        let (checks, checks_of_session) = watch::channel(None);
        let (closing, closing_of_session) = watch::channel(None);
        let mut state = self.state();
        let id = state.next_id();
        let stream = HealthStream {
            id,
            credential: hello.credential.clone(),
            expires: proof.expires(),
            closing,
            checks,
            // The Dataplane that it brings is stored by now, or will be.
            node: NodeMetadata { resource: None, ..metadata },
            revision: 0,
        };
        if let Some(older) = state.health.insert(key.clone(), stream) {
            stream::close(&older.closing, Closing::ALREADY_EXISTS, "a newer connection of this proxy took over");
        }
        drop(state);
        self.0.readiness.probes_opened(key, id);
        tracing::debug!(proxy = %key, peer = %hello.peer, "A proxy asks what to check.");
        let report = Box::new(HealthReporter { registry: self.clone(), key: key.clone(), id });
        HealthSession { checks: checks_of_session, closing: closing_of_session, report }
    }

    /// To be called when a Dataplane was changed or deleted: the proxy is told what to check now. What it found bad stays
    /// so, whatever was written; what it found well it has to say again, as somebody may have reasons to stop it.
    pub fn refresh_checks(&self, key: &ProxyKey) {
        let snapshot = self.0.catalog.store().snapshot();
        if snapshot.get(&key.dataplane()).is_none() {
            self.0.readiness.deleted(key, snapshot.revision());
        }
        let Some(timing) = &self.0.settings.health else { return };
        if !self.state().health.contains_key(key) {
            return;
        }
        let stored = dataplane::stored(&snapshot, key);
        let mut state = self.state();
        let Some(stream) = state.health.get_mut(key) else { return };
        if stream.revision > snapshot.revision() {
            // Somebody was faster, and saw more.
            return;
        }
        stream.revision = snapshot.revision();
        let specifier = stored.as_ref().and_then(|stored| health::specifier(&stored.spec, &stream.node, timing));
        stream.checks.send_if_modified(|checks| {
            let new = match (&checks, specifier) {
                (None, None) => None,
                (Some(_), None) => Some(health::nothing()),
                (_, specifier) => specifier,
            };
            let is_new = checks.as_deref() != new.as_ref();
            if is_new {
                *checks = new.map(Arc::new);
            }
            is_new
        });
        drop(state);
        if let Some(InForce { spec, .. }) = stored {
            self.0.readiness.changed(key, spec);
        }
    }

    fn health_left(&self, key: &ProxyKey, id: u64) {
        let mut state = self.state();
        if state.health.get(key).is_some_and(|stream| stream.id == id) {
            state.health.remove(key);
        }
        drop(state);
        self.0.readiness.probes_closed(key, id);
    }
}

/// What the port holds of the stream. Dropping it says that the stream has ended.
struct HealthReporter {
    registry: Registry,
    key: ProxyKey,
    id: u64,
}

impl HealthReport for HealthReporter {
    fn report(&mut self, found: EndpointHealthResponse) {
        self.registry.0.readiness.probed(&self.key, self.id, Findings::read(found));
    }
}

impl Drop for HealthReporter {
    fn drop(&mut self) {
        self.registry.health_left(&self.key, self.id);
    }
}
