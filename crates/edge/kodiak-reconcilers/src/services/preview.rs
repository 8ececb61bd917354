//! The writes of the service reconciler after a planned change, as a preview.

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{Cancellation, Cancelled, ResourceKey};
use kodiak_services::service_status::ServiceSettings;
use kodiak_store::Snapshot;
use kodiak_world::Change;

use super::{observe::ObservedState, write};

/// Rounds of writes: a new service needs an address, then a hostname, then a state. A limit, in case writes never settle.
const TURNS: usize = 8;

/// Store after the services of a mesh are reconciled to a planned change from `before` to `after`. Grace periods count as
/// over.
pub fn preview(
    before: &Snapshot,
    after: &Snapshot,
    mesh: &str,
    settings: &ServiceSettings,
    cancellation: &Cancellation,
) -> Result<Snapshot, Cancelled> {
    let mut settings = settings.clone();
    settings.rules.disable_grace = SignedDuration::ZERO;
    let now = Timestamp::now();
    let mut state = ObservedState::new(settings, now);
    let concerns = |key: &ResourceKey| &*key.mesh == mesh || key.mesh.is_empty();
    for change in before.world().changes().filter(|change| concerns(&change.key)) {
        cancellation.check()?;
        state.change(&change, before);
    }
    // Pending writes without the planned change are not part of the preview.
    drop(state.reconciler.due(now));
    for change in before.world().difference(after.world()).iter().filter(|change| concerns(&change.key)) {
        state.change(change, after);
    }
    let mut reconciled = after.clone();
    for _ in 0..TURNS {
        let due = state.reconciler.due(now);
        // `OfflineMesh` assigns the addresses of `kuma.io/service` names, also those of names without a stored one.
        if due.writes.is_empty() {
            break;
        }
        for write in due.writes.iter().map(write::write) {
            cancellation.check()?;
            let key = write.key().clone();
            // On a conflict the reconciler retries against the newer record, which a preview does not have.
            let Ok(next) = reconciled.with(write.into()) else { continue };
            let resource = next.world().get(&key).cloned();
            state.change(&Change { key, revision: next.revision(), resource }, &next);
            reconciled = next;
        }
    }
    Ok(reconciled)
}
