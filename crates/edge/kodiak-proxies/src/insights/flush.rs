//! Writing insights, many in one transaction.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_catalog::owner_of;
use kodiak_model::{ProxyKey, kinds::dataplane_insight, kinds::dataplane_insight::DataplaneInsight, language};
use kodiak_store::{Expect, Record, Snapshot, StoreError, Write};
use tokio::time::Instant;

use super::{
    InsightWriter,
    observation::{Due, Observation},
};
use crate::{batch, stored};

/// The observations of one proxy that are to be written, the latest last.
type Gathered = Vec<(u64, Observation)>;

impl InsightWriter {
    /// Writes what is due.
    pub(crate) async fn flush(&self) {
        let gathered = self.gather();
        if gathered.is_empty() {
            return;
        }
        let store = &self.store;
        let snapshot = store.snapshot();
        let (mut written, mut waiting, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, observations) in gathered {
            match self.write(&snapshot, &key, &observations) {
                Some(write) => {
                    writes.push(write);
                    waiting.push(observations);
                }
                None => written.push(observations),
            }
        }
        let mut failure = None;
        for (observations, outcome) in waiting.into_iter().zip(batch::commit(store, writes).await) {
            match outcome {
                // The Dataplane was deleted, and its insight with it.
                Ok(()) | Err(StoreError::OwnerMissing { .. }) => written.push(observations),
                // Somebody else wrote; the next round builds on that.
                Err(StoreError::Conflict(_)) => (),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, "failed to persist DataplaneInsights, retrying");
        }
        self.mark_written(written);
    }

    fn gather(&self) -> BTreeMap<ProxyKey, Gathered> {
        let (now, interval) = (Instant::now(), self.settings.insight_interval);
        let mut gathered: BTreeMap<ProxyKey, Gathered> = BTreeMap::new();
        for (id, observation) in &*self.observations() {
            let due = match observation.due {
                Due::Never => false,
                Due::Later => observation.written.is_none_or(|written| now.duration_since(written) >= interval),
                Due::Now => true,
            };
            if due {
                gathered.entry(observation.key.clone()).or_default().push((*id, observation.clone()));
            }
        }
        gathered
    }

    /// `None` when the insight is up to date, or its Dataplane does not exist.
    fn write(&self, snapshot: &Snapshot, key: &ProxyKey, observations: &Gathered) -> Option<Write> {
        snapshot.get(&key.dataplane())?;
        let record = snapshot.get(&key.insight());
        let mut insight = stored::insight_of(snapshot, key).map(Arc::unwrap_or_clone).unwrap_or_default();
        for (_, observation) in observations {
            observation.apply(&mut insight, self.settings.subscription_limit);
        }
        write(key, record, &insight)
    }

    fn mark_written(&self, written: Vec<Gathered>) {
        let now = Instant::now();
        let mut observations = self.observations();
        for (id, as_written) in written.into_iter().flatten() {
            let Some(observation) = observations.get_mut(&id) else { continue };
            observation.written = Some(now);
            if observation.changes != as_written.changes {
                continue;
            }
            observation.due = Due::Never;
            if observation.is_closed() {
                observations.remove(&id);
            }
        }
    }
}

/// The write that stores this insight. `None` when it is stored already.
pub(super) fn write(key: &ProxyKey, record: Option<&Record>, insight: &DataplaneInsight) -> Option<Write> {
    let spec = language::to_json(insight);
    if record.is_some_and(|record| *record.spec == *spec) {
        return None;
    }
    Some(Write::Put {
        key: key.insight(),
        spec: spec.into(),
        labels: record.map(|record| (*record.labels).clone()).unwrap_or_default(),
        owner: owner_of(&dataplane_insight::KIND, &key.mesh, &key.name),
        expect: record.map_or(Expect::Absent, |record| Expect::Version(record.version)),
    })
}
