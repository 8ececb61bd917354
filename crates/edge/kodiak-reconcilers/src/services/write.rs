//! Does what the keeper wants.

use kodiak_catalog::owner_of;
use kodiak_model::{Labels, ResourceKey, Word as _, kinds::mesh_service, language};
use kodiak_services::{
    hostnames::ServiceKey,
    service_addresses::Positions,
    service_status::{self as keep, Conflict, Status, Wanted},
};
use kodiak_store::{Expect, StoreError, Transaction, Write};

use super::Services;
use crate::leader::leads;

/// So many writes are paid for as one.
const BATCH: usize = 100;

/// The record that says where to go on with giving out addresses.
pub(super) fn positions_key() -> ResourceKey {
    ResourceKey::global("Config", "service-addresses")
}

impl Services {
    /// Writes until nothing is left to write: what is made needs an address and a name. `true`: some of it failed and is
    /// to be tried again.
    pub(super) async fn reconcile(&mut self) -> Result<bool, StoreError> {
        while !self.drain.is_cancelled() && leads(&self.store) {
            let due = self.due()?;
            due.conflicts.iter().for_each(report_conflict);
            if let Some(first) = due.without_address.first() {
                report_without_address(first, due.without_address.len());
            }
            if due.writes.is_empty() {
                return Ok(false);
            }
            let mut failed = false;
            if let Some(positions) = &due.positions
                && !self.claim(positions).await
            {
                failed = true;
                self.told.keeper.again(keys(&due.writes));
            } else {
                for batch in due.writes.chunks(BATCH) {
                    failed |= !self.commit(batch).await;
                }
            }
            // What was written is seen before it is looked at again.
            self.catch_up()?;
            if failed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Before an address is used, whoever leads next must know that it is. `false`: it may not be used.
    async fn claim(&mut self, positions: &Positions) -> bool {
        let write = Write::Put {
            key: positions_key(),
            spec: language::to_json(positions).into(),
            labels: Labels::new(),
            owner: None,
            expect: expect(self.told.positions),
        };
        match self.store.commit(write.into()).await {
            Ok(_) => true,
            // Somebody else gave out addresses; where to go on comes through the watch.
            Err(StoreError::Conflict(_)) => {
                self.told.keeper.lost_positions();
                false
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot store which addresses of services are given out; will try again.");
                false
            }
        }
    }

    /// `false`: to be tried again.
    async fn commit(&mut self, batch: &[Wanted]) -> bool {
        match self.store.commit(Transaction(batch.iter().map(write).collect())).await {
            Ok(_) => true,
            Err(error) if is_refused(&error) && batch.len() > 1 => {
                // One of them stands in the way of the others.
                let mut done = true;
                for wanted in batch {
                    done &= self.commit_one(wanted).await;
                }
                done
            }
            Err(error) => self.note(&error, batch),
        }
    }

    async fn commit_one(&mut self, wanted: &Wanted) -> bool {
        let committed = self.store.commit(write(wanted).into()).await;
        committed.map_or_else(|error| self.note(&error, std::slice::from_ref(wanted)), |_| true)
    }

    /// Whether nothing is to be tried again.
    fn note(&mut self, error: &StoreError, batch: &[Wanted]) -> bool {
        match error {
            // What somebody else wrote meanwhile comes through the watch.
            StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::OwnerMissing { .. } => true,
            StoreError::Invalid { .. } => {
                tracing::warn!(%error, "What follows for a service cannot be stored.");
                true
            }
            error => {
                tracing::warn!(%error, "Cannot store what follows for services; will try again.");
                self.told.keeper.again(keys(batch));
                false
            }
        }
    }
}

/// Not because of the store: because of what is written.
fn is_refused(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Conflict(_)
            | StoreError::NotFound(_)
            | StoreError::OwnerMissing { .. }
            | StoreError::Invalid { .. }
    )
}

fn keys(wanted: &[Wanted]) -> impl Iterator<Item = ServiceKey> {
    wanted.iter().map(|wanted| wanted.key.clone())
}

fn expect(version: Option<u64>) -> Expect {
    version.map_or(Expect::Absent, Expect::Version)
}

pub(super) fn write(Wanted { key, write }: &Wanted) -> Write {
    let ServiceKey { kind, mesh, name } = key;
    let key = ResourceKey::in_mesh(kind.text(), mesh, name);
    match write {
        keep::Write::Put { labels, spec, version } => Write::Put {
            owner: owner_of(&mesh_service::KIND, mesh, name),
            key,
            spec: language::to_json(spec).into(),
            labels: labels.clone(),
            expect: expect(*version),
        },
        keep::Write::Status { status, version } => {
            let status = match status {
                Status::Service(status) => language::to_json(status),
                Status::External(status) => language::to_json(status),
                Status::MultiZone(status) => language::to_json(status),
            };
            Write::PutStatus { key, status: status.into(), expect: expect(*version) }
        }
        keep::Write::Delete { version } => Write::Delete { key, expect: Expect::Version(*version) },
    }
}

fn report_conflict(Conflict { service, dataplanes }: &Conflict) {
    let (count, first) = (dataplanes.len(), dataplanes.first().map_or("", |name| name));
    tracing::warn!(
        mesh = &*service.mesh,
        service = &*service.name,
        count,
        first,
        "The ports of some Dataplanes are not those of their MeshService; give all of a service the same ports."
    );
}

fn report_without_address(first: &ServiceKey, count: usize) {
    let ServiceKey { kind, mesh, name } = first;
    tracing::error!(
        kind = kind.text(),
        mesh = &**mesh,
        first = &**name,
        count,
        "No virtual address is left for some services; give their kind a larger range under `ipam`."
    );
}
