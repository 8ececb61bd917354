//! The one task that keeps the engine up to date, and hands its results to the proxies.
//!
//! It has a thread of its own: a change of a whole mesh is work for a while, and streams should go on meanwhile.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_api::Metrics;
use kodiak_ca::Authorities;
use kodiak_catalog::spec_of;
use kodiak_engine::{Change, Engine, Issued, Labelled, Outcome, Settings, Updated};
use kodiak_model::{
    ProxyKey, Spec,
    kinds::{dataplane_insight::MtlsInsight, mesh::Mesh},
};
use kodiak_proxies::{ProxyEvent, Registry};
use kodiak_reconcilers::{ROLLOUT, Services, VIPS};
use kodiak_store::{self as store, ChangeKind, Record, Store, StoreError, Watch};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// Changes are gathered until none came for so long,
const QUIET: Duration = Duration::from_millis(2);
/// but not longer than this.
const MAX: Duration = Duration::from_millis(50);
/// How often to look for certificates that are due. The shortest lives for two seconds.
const TICK: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) authorities: Authorities,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) events: mpsc::UnboundedReceiver<ProxyEvent>,
    pub(crate) services: watch::Sender<Services>,
    pub(crate) drain: CancellationToken,
}

/// Ends with the drain, or with an error.
pub(crate) async fn run(writer: Writer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Handle::current();
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || drop(ended.send(runtime.block_on(writer.write()))))
        .context("cannot start the writer's thread")?;
    end.await.context("the writer panicked")?
}

impl Writer {
    async fn write(mut self) -> anyhow::Result<()> {
        let mut engine = Engine::new(self.settings.clone());
        let mut watch = self.store.watch(0)?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            let mut batch = Batch::default();
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(()),
                change = watch.next() => match change {
                    Ok(change) => batch.stored(change),
                    Err(StoreError::Unavailable { .. }) if self.drain.is_cancelled() => return Ok(()),
                    Err(error) => return Err(error.into()),
                },
                Some(event) = self.events.recv() => batch.event(event),
                _ = tick.tick() => batch.changes.push(Change::Tick),
            }
            self.gather(&mut watch, &mut batch).await?;
            let Batch { changes, recheck, recheck_proxies } = batch;
            if !changes.is_empty() {
                let outcome = engine.apply(changes, &self.authorities, Timestamp::now());
                self.publish(outcome);
            }
            self.recheck(recheck, recheck_proxies);
        }
    }

    /// Beside everything else: signatures take their time.
    fn recheck(&self, meshes: BTreeSet<Arc<str>>, proxies: Vec<ProxyKey>) {
        if meshes.is_empty() && proxies.is_empty() {
            return;
        }
        let registry = self.registry.clone();
        tokio::task::spawn_blocking(move || {
            for mesh in &meshes {
                registry.recheck(mesh);
            }
            for proxy in proxies.iter().filter(|proxy| !meshes.contains(&proxy.mesh)) {
                registry.recheck_proxy(proxy);
            }
        });
    }

    /// Waits for quiet, but not for ever.
    async fn gather(&mut self, watch: &mut Watch, batch: &mut Batch) -> Result<(), StoreError> {
        let deadline = Instant::now() + MAX;
        loop {
            while let Some(change) = watch.try_next()? {
                batch.stored(change);
            }
            let until = deadline.min(Instant::now() + QUIET);
            let next = async {
                tokio::select! {
                    change = watch.next() => change.map(|change| batch.stored(change)),
                    Some(event) = self.events.recv() => {
                        batch.event(event);
                        Ok(())
                    }
                }
            };
            match timeout_at(until, next).await {
                Ok(taken) => taken?,
                Err(_) => return Ok(()),
            }
        }
    }

    fn publish(&self, outcome: Outcome) {
        let Outcome { proxies, services, stats } = outcome;
        if !services.is_empty() {
            self.services.send_modify(|known| {
                known.extend(services.into_iter().map(|(mesh, names)| (mesh, Arc::new(names))));
            });
        }
        if stats.encoded > 0 || !proxies.is_empty() {
            tracing::debug!(encoded = stats.encoded, woken = stats.woken, "Worked out what proxies should have.");
        }
        self.metrics.generated(stats.encoded, stats.woken);
        for updated in proxies {
            let Updated { key, snapshot, faults, rollout, issued } = updated;
            self.registry.issued(&key, issued.as_ref().map(certificate).unwrap_or_default());
            match snapshot {
                Some(snapshot) if faults.is_empty() => self.registry.publish(&key, snapshot, rollout),
                _ => {
                    tracing::warn!(proxy = %key, faults = faults.join("; "), "A proxy keeps what it has.");
                    self.registry.fault(&key, faults);
                }
            }
        }
    }
}

/// What came in since the last time.
#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    /// The meshes in which tokens may no longer be good.
    recheck: BTreeSet<Arc<str>>,
    /// The proxies whose token may no longer fit.
    recheck_proxies: Vec<ProxyKey>,
}

impl Batch {
    fn event(&mut self, event: ProxyEvent) {
        self.changes.push(match event {
            ProxyEvent::Connected { key, metadata } => Change::Connected { key, metadata },
            ProxyEvent::Disconnected { key } => Change::Disconnected { key },
        });
    }

    fn stored(&mut self, change: store::Change) {
        let store::Change { key, kind, revision: _ } = change;
        let record = match &kind {
            ChangeKind::Put(record) => Some(record),
            ChangeKind::Deleted => None,
        };
        let mesh = key.mesh.clone();
        self.changes.push(match &*key.kind {
            "Mesh" => {
                self.recheck.insert(key.name.clone());
                Change::Mesh { name: key.name, mesh: record.and_then(spec_of::<Mesh>).map(Arc::new) }
            }
            "Dataplane" => {
                let key = ProxyKey { mesh, name: key.name };
                self.recheck_proxies.push(key.clone());
                Change::Dataplane { key, dataplane: labelled(record) }
            }
            "MeshTrafficPermission" => Change::Permission { mesh, name: key.name, policy: labelled(record) },
            "Secret" => {
                self.recheck.insert(mesh.clone());
                Change::Authority { mesh }
            }
            "Config" if &*key.name == VIPS => {
                Change::Vips { mesh, vips: record.and_then(kodiak_reconcilers::read).map(Arc::new) }
            }
            "Config" if &*key.name == ROLLOUT => {
                Change::Rollout { mesh, rollout: record.and_then(kodiak_reconcilers::read) }
            }
            _ => return,
        });
    }
}

/// As the insight of the proxy tells it.
fn certificate(issued: &Issued) -> MtlsInsight {
    let Issued { backend, leaf, trust } = issued;
    MtlsInsight {
        certificate_expiration_time: Some(leaf.not_after.to_string()),
        issued_backend: backend.to_string(),
        supported_backends: trust.iter().map(ToString::to_string).collect(),
        ..MtlsInsight::default()
    }
}

/// A stored resource that cannot be read hurts only itself: it counts as gone.
fn labelled<S: Spec>(record: Option<&Record>) -> Option<Arc<Labelled<S>>> {
    let record = record?;
    Some(Arc::new(Labelled { labels: record.labels.clone(), spec: spec_of::<S>(record)? }))
}
