//! Stored traffic: `traffic.<shard>.<instance>` of each control plane, and `traffic.<shard>` of those that ended.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Snapshot, StoreError, Transaction, Write};
use kodiak_traffic::Recorded;
use kodiak_world::{Resource, document};
use serde::{Deserialize, Serialize};

use super::{SHARDS, TrafficRecorder};

/// Control planes that a fold lists. Older ones cannot come back.
const MOST_FOLDED: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredTraffic {
    #[serde(flatten)]
    recorded: Recorded,
    /// Control planes whose records were added to this one and deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    folded: Vec<String>,
}

impl TrafficRecorder {
    pub(crate) fn of_mesh(&self, mesh: &str) -> Recorded {
        let snapshot = self.store.snapshot();
        let mut all = Recorded::default();
        for (name, resource) in records(&snapshot, mesh) {
            if name.instance != Some(&self.settings.instance_id) {
                all.merge(&read(resource).recorded);
            }
        }
        for ((_, number), shard) in self.shards().range((Arc::from(mesh), 0)..=(Arc::from(mesh), SHARDS)) {
            all.merge(shard.unfolded(self.is_folded(&snapshot, mesh, *number)));
        }
        all
    }

    /// Writes shards that have changed.
    pub(crate) async fn flush(&self) {
        let snapshot = self.store.snapshot();
        let exists = |mesh: &str| snapshot.get(&ResourceKey::global("Mesh", mesh)).is_some();
        self.names.retain(exists);
        let mut attempts = Vec::new();
        {
            let mut shards = self.shards();
            shards.retain(|(mesh, _), _| exists(mesh));
            for ((mesh, number), shard) in shards.iter_mut().filter(|(_, shard)| shard.is_dirty()) {
                let attempt = shard.attempt(self.is_folded(&snapshot, mesh, *number));
                attempts.push((mesh.clone(), *number, attempt));
            }
        }
        let writes = attempts.iter().map(|(mesh, number, attempt)| {
            let key = self.part(mesh, *number);
            let expect = snapshot.get(&key).map_or(Expect::Absent, |record| Expect::Version(record.version));
            put(key, mesh, &StoredTraffic { recorded: attempt.total.clone(), folded: Vec::new() }, expect).into()
        });
        let outcomes = self.store.commit_gathered(writes.collect()).await;
        let mut failure = None;
        let mut shards = self.shards();
        for ((mesh, number, attempt), outcome) in attempts.into_iter().zip(outcomes) {
            let Some(shard) = shards.get_mut(&(mesh, number)) else { continue };
            match outcome {
                Ok(_) => (),
                Err(StoreError::Unavailable { source }) => {
                    shard.unknown();
                    failure = Some(StoreError::Unavailable { source });
                }
                // The mesh was deleted, or the leader folded the record: the next round builds on that.
                Err(StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::OwnerMissing { .. }) => {
                    shard.refused(&attempt);
                }
                Err(error) => {
                    shard.refused(&attempt);
                    failure = Some(error);
                }
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, "failed to persist observed traffic, retrying");
        }
    }

    /// While this control plane leads, folds the records of control planes that are lost for this long.
    pub(crate) async fn fold(&self, grace: Duration) {
        let Some(leader) = self.store.leader() else { return };
        let Some(settings) = self.settings.traffic else { return };
        let snapshot = self.store.snapshot();
        let presence = self.store.presence().borrow().clone();
        let is_lost = |instance: &str| {
            instance != self.settings.instance_id
                && presence.lost(instance).is_some_and(|since| since.elapsed() >= grace)
        };
        let mut folds: BTreeMap<(Arc<str>, usize), (StoredTraffic, Vec<Write>)> = BTreeMap::new();
        for resource in snapshot.world().list("Config") {
            let Some(name) = RecordName::of(&resource.key) else { continue };
            let Some(instance) = name.instance.filter(|instance| is_lost(instance)) else { continue };
            let mesh = resource.key.mesh.clone();
            let base = snapshot.world().get(&fold_key(&mesh, name.shard));
            let (sum, deletes) = folds
                .entry((mesh, name.shard))
                .or_insert_with(|| (base.map(|base| read(base)).unwrap_or_default(), Vec::new()));
            sum.recorded.merge_up_to(&read(resource).recorded, settings.max_edges.div_ceil(SHARDS));
            sum.folded.push(instance.to_owned());
            deletes.push(Write::Delete { key: resource.key.clone(), expect: Expect::Version(resource.version) });
        }
        let transactions = folds.into_iter().map(|((mesh, shard), (mut sum, deletes))| {
            let surplus = sum.folded.len().saturating_sub(MOST_FOLDED);
            sum.folded.drain(..surplus);
            let key = fold_key(&mesh, shard);
            let expect = snapshot.get(&key).map_or(Expect::Absent, |record| Expect::Version(record.version));
            Transaction([put(key, &mesh, &sum, expect)].into_iter().chain(deletes).collect())
        });
        let outcomes = leader.commit_gathered(transactions.collect()).await;
        for error in outcomes.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "failed to fold observed traffic of ended control planes, retrying");
        }
    }

    fn part(&self, mesh: &str, shard: usize) -> ResourceKey {
        document::key(mesh, &format!("{}.{shard:02}.{}", document::TRAFFIC, self.settings.instance_id))
    }

    /// Whether another control plane took this one for lost, and folded its record.
    fn is_folded(&self, snapshot: &Snapshot, mesh: &str, shard: usize) -> bool {
        snapshot.get(&self.part(mesh, shard)).is_none()
            && snapshot
                .world()
                .get(&fold_key(mesh, shard))
                .is_some_and(|fold| read(fold).folded.contains(&self.settings.instance_id))
    }
}

fn fold_key(mesh: &str, shard: usize) -> ResourceKey {
    document::key(mesh, &format!("{}.{shard:02}", document::TRAFFIC))
}

/// Parts of the name of a record.
struct RecordName<'a> {
    shard: usize,
    /// `None` for the fold.
    instance: Option<&'a str>,
}

impl<'a> RecordName<'a> {
    fn of(key: &'a ResourceKey) -> Option<Self> {
        let rest = document::name(key)?.strip_prefix(document::TRAFFIC)?.strip_prefix('.')?;
        let (shard, instance) = rest.split_once('.').map_or((rest, None), |(shard, instance)| (shard, Some(instance)));
        Some(Self { shard: shard.parse().ok()?, instance })
    }
}

fn records<'s>(snapshot: &'s Snapshot, mesh: &str) -> impl Iterator<Item = (RecordName<'s>, &'s Arc<Resource>)> {
    let all = snapshot.world().list_in("Config", mesh);
    all.filter_map(|resource| Some((RecordName::of(&resource.key)?, resource)))
}

fn read(resource: &Resource) -> StoredTraffic {
    resource.document().unwrap_or_else(|| {
        tracing::warn!(record = %resource.key, "unreadable record of the control plane, ignoring it");
        StoredTraffic::default()
    })
}

fn put(key: ResourceKey, mesh: &str, stored: &StoredTraffic, expect: Expect) -> Write {
    let spec = serde_json::to_string(stored).expect("documents have text keys");
    let owner = Some(ResourceKey::global("Mesh", mesh));
    Write::Put { key, spec: spec.into(), labels: Labels::new(), owner, expect }
}
