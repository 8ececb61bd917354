//! What would be written, for those who want to know beforehand.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::ResourceKey;
use kodiak_store::{Record, Snapshot, Write};
use kodiak_views::service_status::Settings;

use super::{tell::Told, write};

/// What is made needs an address, a name and a state, one after the other; what needs more turns never ends.
const TURNS: usize = 8;

/// What follows for the services of a mesh when `planned` is stored; without a record, deleted. Told is where that ends:
/// nothing waits for a grace period.
pub fn foresee(
    stored: &Snapshot,
    mesh: &str,
    planned: &[(ResourceKey, Option<Record>)],
    settings: &Settings,
) -> Vec<(ResourceKey, Option<Record>)> {
    let mut settings = settings.clone();
    settings.rules.disable_grace = SignedDuration::ZERO;
    let now = Timestamp::now();
    let mut told = Told::new(settings, now);
    let concerns = |key: &ResourceKey| &*key.mesh == mesh || key.mesh.is_empty();
    for record in stored.iter().filter(|record| concerns(&record.key)) {
        told.record(&record.key, Some(record));
    }
    // Only what is planned is looked at; what is stored is as it should be, or will be soon.
    drop(told.keeper.due(now));
    let mut known: BTreeMap<ResourceKey, Option<Record>> = BTreeMap::new();
    for (key, record) in planned {
        told.record(key, record.as_ref());
        known.insert(key.clone(), record.clone());
    }
    let mut foreseen: BTreeMap<ResourceKey, Option<Record>> = BTreeMap::new();
    for _ in 0..TURNS {
        let due = told.keeper.due(now);
        if due.writes.is_empty() {
            break;
        }
        for wanted in &due.writes {
            let write = write::write(wanted);
            let key = key_of(&write).clone();
            let before = known.get(&key).cloned().unwrap_or_else(|| stored.get(&key).cloned());
            let after = written(before, write, now);
            told.record(&key, after.as_ref());
            known.insert(key.clone(), after.clone());
            foreseen.insert(key, after);
        }
    }
    foreseen.into_iter().collect()
}

fn key_of(write: &Write) -> &ResourceKey {
    match write {
        Write::Put { key, .. } | Write::PutStatus { key, .. } | Write::Delete { key, .. } => key,
    }
}

/// The record after the write, as the store would have it.
fn written(before: Option<Record>, write: Write, now: Timestamp) -> Option<Record> {
    match write {
        Write::Put { key, spec, labels, owner, .. } => Some(Record {
            status: before.as_ref().and_then(|before| before.status.clone()),
            version: before.as_ref().map_or(1, |before| before.version + 1),
            status_version: before.as_ref().map_or(0, |before| before.status_version),
            revision: before.as_ref().map_or(0, |before| before.revision),
            created: before.as_ref().map_or(now, |before| before.created),
            modified: now,
            labels: Arc::new(labels),
            key,
            spec,
            owner,
        }),
        Write::PutStatus { status, .. } => {
            before.map(|before| Record { status: Some(status), status_version: before.status_version + 1, ..before })
        }
        Write::Delete { .. } => None,
    }
}
