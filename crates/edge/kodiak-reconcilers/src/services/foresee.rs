//! The writes of the service reconciler after a planned change, as a preview.

use jiff::{SignedDuration, Timestamp};
use kodiak_model::ResourceKey;
use kodiak_services::service_status::Settings;
use kodiak_store::{Snapshot, Write};
use kodiak_world::Change;

use super::{tell::Told, write};

/// A new service needs an address, a name and a state, one after the other; more turns would never end.
const TURNS: usize = 8;

/// The store as it would be when all services of a mesh are reconciled after `before` has become `after`. Grace periods
/// count as over.
pub fn foresee(before: &Snapshot, after: &Snapshot, mesh: &str, settings: &Settings) -> Snapshot {
    let mut settings = settings.clone();
    settings.rules.disable_grace = SignedDuration::ZERO;
    let now = Timestamp::now();
    let mut told = Told::new(settings, now);
    let concerns = |key: &ResourceKey| &*key.mesh == mesh || key.mesh.is_empty();
    for change in before.world().changes().filter(|change| concerns(&change.key)) {
        told.change(&change);
    }
    // Only the planned change counts: the services of today are reconciled, or will be soon.
    drop(told.keeper.due(now));
    for change in before.world().difference(after.world()).iter().filter(|change| concerns(&change.key)) {
        told.change(change);
    }
    let mut reconciled = after.clone();
    for _ in 0..TURNS {
        let due = told.keeper.due(now);
        if due.writes.is_empty() {
            break;
        }
        for write in due.writes.iter().map(write::write) {
            let key = key_of(&write).clone();
            // A write that the store would refuse is tried again by the reconciler, with another outcome.
            let Ok(next) = reconciled.with(write.into()) else { continue };
            let resource = next.world().get(&key).cloned();
            told.change(&Change { key, revision: next.revision(), resource });
            reconciled = next;
        }
    }
    reconciled
}

fn key_of(write: &Write) -> &ResourceKey {
    match write {
        Write::Put { key, .. } | Write::PutStatus { key, .. } | Write::Delete { key, .. } => key,
    }
}
