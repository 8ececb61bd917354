//! Virtual addresses of the `kuma.io/service` names of a mesh. They are stored as one record for each mesh.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Due, ServiceReconciler, Timer};
use crate::vips::{Assignment, Vips};

/// A service keeps its address for this time after its last Dataplane was deleted.
pub(super) const KEEP: SignedDuration = SignedDuration::from_hours(24);

/// Stored record of a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredVips {
    /// Empty when the record is unreadable: it is replaced.
    pub vips: Vips,
    pub version: u64,
}

/// Write of the record of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedVips {
    pub mesh: Arc<str>,
    pub vips: Vips,
    /// Without a version it must not exist yet.
    pub version: Option<u64>,
}

/// Services without an address because their range is exhausted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagsWithoutAddress {
    pub mesh: Arc<str>,
    pub services: Vec<Arc<str>>,
}

impl ServiceReconciler {
    /// Sets the stored addresses of `kuma.io/service` names.
    pub fn set_vips(&mut self, mesh: &Arc<str>, stored: Option<StoredVips>) {
        let population = self.meshes.entry(mesh.clone()).or_default();
        if population.vips != stored {
            let vips = |stored: &Option<StoredVips>| stored.as_ref().map(|stored| stored.vips.clone());
            let (before, after) = (vips(&population.vips), vips(&stored));
            population.vips = stored;
            let freed = self.addresses.set_vips(mesh, before.as_ref(), after.as_ref());
            self.note_freed(freed);
            if let Some(end) = after.and_then(|vips| vips.next_expiry(KEEP)) {
                self.timers.entry(end).or_default().insert(Timer::Tags(mesh.clone()));
            }
            self.note_tags(mesh);
        }
        self.forget(mesh);
    }

    /// Marks meshes whose write failed, for a retry.
    pub fn vips_again(&mut self, meshes: impl IntoIterator<Item = Arc<str>>) {
        for mesh in meshes {
            self.note_tags(&mesh);
        }
    }

    pub(super) fn note_tags(&mut self, mesh: &Arc<str>) {
        self.notices += 1;
        self.unsettled_tags.insert(mesh.clone());
    }

    pub(super) fn assign_tags(&mut self, mesh: &Arc<str>, now: Timestamp, due: &mut Due) {
        // The record of a deleted mesh is deleted with it.
        let Some(population) = self.meshes.get(mesh).filter(|population| population.facts.is_some()) else { return };
        let (stored, none) = (population.vips.as_ref(), Vips::default());
        let known = stored.map_or(&none, |stored| &stored.vips);
        let Assignment { vips, without_address } =
            self.addresses.assign(mesh, known, population.tags.names(), now, KEEP);
        if !without_address.is_empty() {
            due.tags_without_address.push(TagsWithoutAddress { mesh: mesh.clone(), services: without_address });
        }
        if vips != *known {
            let version = stored.map(|stored| stored.version);
            due.vips.push(WantedVips { mesh: mesh.clone(), vips, version });
        }
    }
}
