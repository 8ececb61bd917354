//! Writer: applies changes to the engine, and publishes its snapshots to the proxies.
//!
//! It has its own thread: a change of a whole mesh takes time, which must not delay streams.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_ca::{Expiries, MeshCas};
use kodiak_engine::{AcknowledgedState, EngineChange, EngineSettings, Issued, Outcome, Updated};
use kodiak_metrics::XdsMetrics;
use kodiak_model::{ProxyKey, ResourceKey, kinds::dataplane_insight::MtlsInsight};
use kodiak_proxies::{ProxyEvent, Recheck, Registry, SnapshotTokens};
use kodiak_reconcilers::quarantine::Quarantine;
use kodiak_store::{self as store, Store, StoreError, Watch};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    addresses::{Addresses, Found},
    faults::Faults,
    guarded_engine::{GuardedEngine, Input},
};

/// Changes are batched until none arrived for this time,
const QUIET: Duration = Duration::from_millis(2);
/// or at most for this time.
const MAX: Duration = Duration::from_millis(50);
/// Changes are batched, too, while proxies are sent the previous ones, but at most for this time.
const MAX_PUSH: Duration = Duration::from_secs(1);
/// Interval at which certificates are checked for renewal. The shortest lifetime is two seconds.
const TICK: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) settings: EngineSettings,
    pub(crate) mesh_cas: MeshCas,
    pub(crate) registry: Registry,
    pub(crate) metrics: XdsMetrics,
    pub(crate) events: mpsc::UnboundedReceiver<ProxyEvent>,
    pub(crate) addresses: Addresses,
    pub(crate) found: mpsc::UnboundedReceiver<Found>,
    pub(crate) quarantine: Quarantine,
    pub(crate) faults: Faults,
    pub(crate) expiries: Expiries,
    pub(crate) drain: CancellationToken,
}

/// Ends with the drain, with an error, or when it is dropped.
pub(crate) async fn run(mut writer: Writer) -> anyhow::Result<()> {
    writer.drain = writer.drain.child_token();
    let _dropped = writer.drain.clone().drop_guard();
    let runtime = tokio::runtime::Handle::current();
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || drop(ended.send(runtime.block_on(writer.write()))))
        .context("cannot start the thread of the configuration writer")?;
    end.await.context("the configuration writer panicked")?
}

impl Writer {
    async fn write(mut self) -> anyhow::Result<()> {
        let mut engine = GuardedEngine::new(self.settings.clone(), self.quarantine.clone(), self.faults.clone());
        let mut rechecks = JoinSet::new();
        let mut watch = self.store.watch(0)?;
        let mut tick = tokio::time::interval(TICK);
        let mut published = Instant::now();
        loop {
            let mut batch = Batch::default();
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(()),
                change = watch.next() => match change {
                    Ok(change) => batch.stored(&change, &mut self.addresses),
                    Err(StoreError::Unavailable { .. }) if self.drain.is_cancelled() => return Ok(()),
                    Err(error) => return Err(error.into()),
                },
                Some(event) = self.events.recv() => batch.event(event),
                Some(found) = self.found.recv() => self.moved(found, &mut batch),
                _ = tick.tick() => batch.others.push(EngineChange::Tick),
                // Fatal, because a revoked token may still be in use.
                Some(rechecked) = rechecks.join_next() => rechecked.context("the recheck of tokens panicked")?,
            }
            self.gather(&mut watch, &mut batch, published + MAX_PUSH).await?;
            let Batch { inputs, mut others, acknowledged, recheck } = batch;
            // Insights are written all the time, and most say nothing new.
            let news = acknowledged.into_iter().filter(|(key, state)| engine.is_news(key, *state));
            others.extend(news.map(|(key, state)| EngineChange::Acknowledged { key, state }));
            for input in &inputs {
                if let EngineChange::Disconnected { key } = &input.change {
                    self.expiries.disconnected(key);
                }
            }
            if !inputs.is_empty() || !others.is_empty() {
                let started = Instant::now();
                let outcome = engine.apply(inputs, others, &self.mesh_cas, Timestamp::now());
                self.publish(outcome, started.elapsed());
                published = Instant::now();
            }
            self.recheck(&mut rechecks, recheck);
        }
    }

    /// Runs on a blocking thread, because signatures are slow to verify.
    fn recheck(&self, rechecks: &mut JoinSet<()>, recheck: BTreeSet<Recheck>) {
        if recheck.is_empty() {
            return;
        }
        let registry = self.registry.clone();
        rechecks.spawn_blocking(move || {
            registry.recheck(&recheck);
            for each in &recheck {
                if let Recheck::Proxy(proxy) = each {
                    registry.refresh_checks(proxy);
                }
            }
        });
    }

    /// Batches changes. Those that come while proxies are sent the previous ones are one batch: a crowd that arrives is pushed
    /// to everybody a few times, and not once per proxy.
    async fn gather(&mut self, watch: &mut Watch, batch: &mut Batch, push_deadline: Instant) -> Result<(), StoreError> {
        let deadline = Instant::now() + MAX;
        loop {
            while let Some(change) = watch.try_next()? {
                batch.stored(&change, &mut self.addresses);
            }
            let pushing = !self.registry.has_pushed();
            if pushing && push_deadline <= Instant::now() {
                self.registry.give_up_pushes();
                continue;
            }
            let until = if pushing { push_deadline } else { deadline.min(Instant::now() + QUIET) };
            tokio::select! {
                () = self.drain.cancelled() => return Ok(()),
                change = watch.next() => batch.stored(&change?, &mut self.addresses),
                Some(event) = self.events.recv() => batch.event(event),
                () = self.registry.pushed(), if pushing => (),
                () = sleep_until(until) => if !pushing { return Ok(()) },
            }
        }
    }

    /// Applies the new address of a name to the Dataplanes that use it.
    fn moved(&mut self, found: Found, batch: &mut Batch) {
        for key in self.addresses.take(found) {
            let key = key.dataplane();
            let resource = self.store.snapshot().world().get(&key).cloned();
            let revision = resource.as_ref().map_or(0, |resource| resource.revision);
            batch.resource(&kodiak_world::Change { key, revision, resource }, &mut self.addresses);
        }
    }

    fn publish(&self, outcome: Outcome, took: Duration) {
        let Outcome { proxies, stats } = outcome;
        if stats.encoded > 0 || !proxies.is_empty() {
            tracing::debug!(encoded = stats.encoded, woken = stats.woken, "generated configuration");
        }
        self.metrics.generated(stats.encoded, stats.woken, took);
        self.registry.begin_pushes(proxies.len());
        for updated in proxies {
            let Updated { key, snapshot, faults, rollout, permissions, issued } = updated;
            self.expiries.issued(&key, issued.as_ref());
            self.registry.issued(&key, issued.as_ref().map(certificate).unwrap_or_default());
            if !faults.is_empty() {
                tracing::warn!(proxy = %key, faults = faults.join("; "), "resources failed validation, proxy stays on their last good version");
                self.metrics.snapshot_invalid();
            }
            if let Some(snapshot) = snapshot {
                let permissions = permissions.map(|token| token.to_string().into()).unwrap_or_default();
                self.registry.publish(&key, snapshot, SnapshotTokens { rollout, permissions }, faults);
            }
        }
    }
}

/// Changes since the last run of the engine.
#[derive(Default)]
struct Batch {
    inputs: Vec<Input>,
    /// Changes without a resource.
    others: Vec<EngineChange>,
    /// States of proxies in their insights.
    acknowledged: BTreeMap<ProxyKey, Option<AcknowledgedState>>,
    /// Streams whose token must be verified again, and whose health checks may have changed.
    recheck: BTreeSet<Recheck>,
}

impl Batch {
    fn event(&mut self, event: ProxyEvent) {
        let (ProxyEvent::Connected { key, .. } | ProxyEvent::Disconnected { key }) = &event;
        let key = ResourceKey::in_mesh("DataplaneInsight", &key.mesh, &key.name);
        let change = match event {
            ProxyEvent::Connected { key, metadata } => EngineChange::Connected { key, metadata },
            ProxyEvent::Disconnected { key } => EngineChange::Disconnected { key },
        };
        self.inputs.push(Input { key, revision: 0, change });
    }

    fn stored(&mut self, change: &store::StoreChange, addresses: &mut Addresses) {
        self.recheck.extend(Recheck::after(&change.key));
        self.resource(&change.typed(), addresses);
    }

    fn resource(&mut self, change: &kodiak_world::Change, addresses: &mut Addresses) {
        let (key, revision) = (change.key.clone(), change.revision);
        match EngineChange::of(change).map(|change| located(change, addresses)) {
            Some(change @ (EngineChange::Secret { .. } | EngineChange::Tick)) => self.others.push(change),
            Some(EngineChange::Acknowledged { key, state }) => drop(self.acknowledged.insert(key, state)),
            Some(change) => self.inputs.push(Input { key, revision, change }),
            None => (),
        }
    }
}

/// Certificate in the format of DataplaneInsight.
fn certificate(issued: &Issued) -> MtlsInsight {
    let Issued { issuer, leaf, failure, trust } = issued;
    MtlsInsight {
        certificate_expiration_time: leaf.as_ref().map(|leaf| leaf.not_after.to_string()),
        issued_backend: issuer.to_string(),
        supported_backends: trust.iter().map(ToString::to_string).collect(),
        spiffe_id: leaf.as_ref().map(|leaf| leaf.spiffe_id.to_string()).unwrap_or_default(),
        serial_number: leaf.as_ref().map(|leaf| leaf.serial.to_string()).unwrap_or_default(),
        next_rotation: leaf.as_ref().map(|leaf| leaf.renew_at.to_string()),
        renewal_error: failure.clone().unwrap_or_default(),
        ..MtlsInsight::default()
    }
}

/// Replaces host names of a Dataplane by resolved addresses.
fn located(change: EngineChange, addresses: &mut Addresses) -> EngineChange {
    let EngineChange::Dataplane { key, mut dataplane } = change else { return change };
    addresses.fill_in(&key, dataplane.as_mut().map(|proxy| Arc::make_mut(&mut Arc::make_mut(proxy).dataplane)));
    EngineChange::Dataplane { key, dataplane }
}
