//! Commits the writes of the service reconciler.

use kodiak_catalog::owner_of;
use kodiak_model::{Labels, ResourceKey, Word as _, kinds::mesh_service, language};
use kodiak_services::{
    hostnames::ServiceKey,
    service_addresses::Positions,
    service_status::{self as views, Conflict, Status, TagsWithoutAddress, Wanted, WantedVips},
};
use kodiak_store::{Expect, StoreError, Transaction, Write};
use kodiak_world::document::VIPS;

use super::Services;
use crate::{documents, leader::leads};

/// Writes per transaction.
const BATCH: usize = 100;

/// Record with the allocation positions of virtual addresses.
pub(super) fn positions_key() -> ResourceKey {
    ResourceKey::global("Config", "service-addresses")
}

impl Services {
    /// Commits until no write is pending: a created service next needs an address and a hostname. `true` when some
    /// writes failed and must be retried.
    pub(super) async fn reconcile(&mut self) -> Result<bool, StoreError> {
        while !self.drain.is_cancelled() && leads(&self.store) {
            let due = self.due()?;
            due.conflicts.iter().for_each(report_conflict);
            if let Some(first) = due.without_address.first() {
                report_without_address(first, due.without_address.len());
            }
            due.tags_without_address.iter().for_each(report_tags_without_address);
            if !due.has_writes() {
                return Ok(false);
            }
            let mut failed = false;
            for wanted in &due.vips {
                failed |= !self.commit_vips(wanted).await;
            }
            if let Some(positions) = &due.positions
                && !self.claim(positions).await
            {
                failed = true;
                self.state.reconciler.again(keys(&due.writes));
            } else {
                for batch in due.writes.chunks(BATCH) {
                    failed |= !self.commit(batch).await;
                }
            }
            // Own writes are applied before the next decision.
            self.catch_up()?;
            if failed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Persists positions before their addresses are used, for the next leader. `false`: the addresses must not be
    /// used.
    async fn claim(&mut self, positions: &Positions) -> bool {
        let write = Write::Put {
            key: positions_key(),
            spec: language::to_json(positions).into(),
            labels: Labels::new(),
            owner: None,
            expect: expect(self.state.positions),
        };
        match self.store.commit(write.into()).await {
            Ok(_) => true,
            // Another control plane allocated addresses; its positions arrive through the watch.
            Err(StoreError::Conflict(_)) => {
                self.state.reconciler.lost_positions();
                false
            }
            Err(error) => {
                tracing::warn!(%error, "failed to persist the allocation of service addresses, retrying");
                false
            }
        }
    }

    /// `false` when the write must be retried.
    async fn commit_vips(&mut self, WantedVips { mesh, vips, version }: &WantedVips) -> bool {
        match documents::write(&self.store, mesh, VIPS, *version, vips).await {
            // On a conflict the newer record arrives through the watch.
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, mesh = &**mesh, "failed to persist virtual addresses, retrying");
                self.state.reconciler.vips_again([mesh.clone()]);
                false
            }
        }
    }

    /// `false` when writes must be retried.
    async fn commit(&mut self, batch: &[Wanted]) -> bool {
        match self.store.commit(Transaction(batch.iter().map(write).collect())).await {
            Ok(_) => true,
            Err(error) if is_refused(&error) && batch.len() > 1 => {
                // One invalid write fails the transaction, so each is committed alone.
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

    /// `true` when the error needs no retry.
    fn note(&mut self, error: &StoreError, batch: &[Wanted]) -> bool {
        match error {
            // Conflict: the newer record arrives through the watch.
            StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::OwnerMissing { .. } => true,
            StoreError::Invalid { .. } => {
                tracing::warn!(%error, "store rejected a service update, skipping it");
                true
            }
            error => {
                tracing::warn!(%error, "failed to persist service updates, retrying");
                self.state.reconciler.again(keys(batch));
                false
            }
        }
    }
}

/// Whether the error is caused by the write, not by the state of the store.
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
        views::Write::Put { labels, spec, version } => Write::Put {
            owner: owner_of(&mesh_service::KIND, mesh, name),
            key,
            spec: language::to_json(spec).into(),
            labels: labels.clone(),
            expect: expect(*version),
        },
        views::Write::Status { status, version } => {
            let status = match status {
                Status::Service(status) => language::to_json(status),
                Status::External(status) => language::to_json(status),
                Status::MultiZone(status) => language::to_json(status),
            };
            Write::PutStatus { key, status: status.into(), expect: expect(*version) }
        }
        views::Write::Delete { version } => Write::Delete { key, expect: Expect::Version(*version) },
    }
}

fn report_conflict(Conflict { service, dataplanes }: &Conflict) {
    let (count, first) = (dataplanes.len(), dataplanes.first().map_or("", |name| name));
    tracing::warn!(
        mesh = &*service.mesh,
        service = &*service.name,
        count,
        first,
        "Dataplanes and their MeshService have different ports: give all Dataplanes of a service the same ports"
    );
}

fn report_without_address(first: &ServiceKey, count: usize) {
    let ServiceKey { kind, mesh, name } = first;
    tracing::error!(
        kind = kind.text(),
        mesh = &**mesh,
        first = &**name,
        count,
        "virtual address range is exhausted: configure a larger range for this kind under `ipam`"
    );
}

fn report_tags_without_address(TagsWithoutAddress { mesh, services }: &TagsWithoutAddress) {
    let (count, first) = (services.len(), services.first().map_or("", |name| name));
    tracing::error!(
        mesh = &**mesh,
        first,
        count,
        "virtual address range is exhausted, new services of this mesh get none"
    );
}
