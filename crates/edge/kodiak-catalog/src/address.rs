//! Services of another control plane that keep their virtual address.
//!
//! The status of a service is not writable by users; an administrator who imports a service may set its virtual address
//! once, while it has none. The service and its address are one transaction, so the reconciler of services never
//! allocates another one in between.
//!
//! **Invariant:** an address has one owner. Every transaction that stores one replaces the record of allocation positions
//! by compare-and-swap, here and in the reconciler.

use std::net::Ipv4Addr;

use kodiak_model::{
    Checked, FieldPath, Labels, Problems, ResourceKey, Word as _,
    kinds::{
        dataplane::BackendKind,
        mesh_external_service::MeshExternalServiceStatus,
        mesh_multi_zone_service::MeshMultiZoneServiceStatus,
        mesh_service::{MeshServiceStatus, Vip},
    },
    language,
};
use kodiak_services::{service_addresses::Positions, vips::Vips};
use kodiak_store::{Snapshot, Transaction, Write};
use kodiak_world::{Resource, document};
use serde_json::Value;

use crate::{
    Catalog, Put, Refusal, Rights, Stage, Target,
    put::{TRIES, key_of, write},
};

const KINDS: [BackendKind; 3] =
    [BackendKind::MeshService, BackendKind::MeshExternalService, BackendKind::MeshMultiZoneService];

impl Catalog {
    /// As [`put_with`](Self::put_with), for a MeshService, MeshExternalService or MeshMultiZoneService that gets this
    /// virtual address. Rejected if the service has another one, or if somebody else has it.
    pub async fn put_with_address(
        &self,
        target: Target<'_>,
        body: Value,
        rights: Rights,
        address: Ipv4Addr,
    ) -> Result<Put, Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        let (meta, spec, left_out) = self.read(target, body)?;
        let checked = meta.with(spec, self.place());
        let mut tries = 1..TRIES;
        loop {
            let snapshot = self.store().snapshot();
            let (checked, secrets, mut put) = self.prepare(&snapshot, checked.clone(), left_out, rights)?;
            let addressed = self.address_writes(&snapshot, &checked, address)?;
            put.changed |= !addressed.is_empty();
            if !put.changed {
                return Ok(put);
            }
            let mut writes = vec![write(&checked, &snapshot)];
            writes.extend(secrets);
            writes.extend(addressed);
            match self.commit(Transaction(writes), false).await {
                Ok(()) => return Ok(put),
                Err(Refusal::Conflict(_)) if tries.next().is_some() => (),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Writes of the status and of the allocation positions; none if the service has the address already.
    fn address_writes(&self, snapshot: &Snapshot, checked: &Checked, address: Ipv4Addr) -> Result<Vec<Write>, Refusal> {
        let refuse = |message: String| {
            let mut problems = Problems::default();
            problems.add(&FieldPath::ROOT.field("status"), message);
            Refusal::invalid(Stage::Check, problems)
        };
        let Some(kind) = KINDS.into_iter().find(|kind| kind.text() == checked.kind.name) else {
            return Err(refuse(format!("{} has no virtual address", checked.kind.name)));
        };
        let key = key_of(checked);
        let stored = snapshot.world().get(&key);
        match stored.and_then(|stored| addresses(kind, stored).first().cloned()) {
            Some(own) if own == address.to_string() => return Ok(Vec::new()),
            Some(own) => {
                return Err(refuse(format!("it has the virtual address {own} already, which never changes")));
            }
            None => (),
        }
        let range = self.ranges.of(kind);
        if !range.contains(address) {
            return Err(refuse(format!(
                "the virtual address {address} is not in the range {range} of {}; configure the range under `ipam`",
                kind.text()
            )));
        }
        if let Some(owner) = owner_of_address(snapshot, address).map_err(refuse)? {
            return Err(refuse(format!("the virtual address {address} belongs to {owner}")));
        }
        let status = with_address(kind, stored.map(|stored| &**stored), address);
        let status = Write::PutStatus { expect: snapshot.expect_status(&key), key, status: status.into() };
        Ok(vec![status, self.claim(snapshot).map_err(refuse)?])
    }

    /// Replaces the allocation positions, so that no other transaction stores an address at the same time.
    fn claim(&self, snapshot: &Snapshot) -> Result<Write, String> {
        let key = document::service_addresses();
        let stored = snapshot.world().get(&key);
        let positions = match stored {
            Some(stored) => stored.document::<Positions>().ok_or_else(|| unreadable(&stored.key))?,
            None => self.ranges.first_positions(),
        };
        let next = Positions { writes: positions.writes + 1, ..positions };
        Ok(Write::Put {
            spec: language::to_json(&next).into(),
            labels: Labels::new(),
            owner: None,
            expect: snapshot.expect(&key),
            key,
        })
    }
}

/// Virtual addresses in the status of a destination.
fn addresses(kind: BackendKind, resource: &Resource) -> Vec<String> {
    let vips = match kind {
        BackendKind::MeshService => resource.status::<MeshServiceStatus>().vips.clone(),
        BackendKind::MeshExternalService => vec![resource.status::<MeshExternalServiceStatus>().vip.clone()],
        BackendKind::MeshMultiZoneService => resource.status::<MeshMultiZoneServiceStatus>().vips.clone(),
    };
    vips.into_iter().map(|vip| vip.ip).filter(|ip| !ip.is_empty()).collect()
}

/// Status of a destination, with the address.
fn with_address(kind: BackendKind, stored: Option<&Resource>, address: Ipv4Addr) -> String {
    let vip = Vip { ip: address.to_string() };
    match kind {
        BackendKind::MeshService => {
            let old = stored.map(|stored| (*stored.status::<MeshServiceStatus>()).clone()).unwrap_or_default();
            language::to_json(&MeshServiceStatus { vips: vec![vip], ..old })
        }
        BackendKind::MeshExternalService => {
            let old = stored.map(|stored| (*stored.status::<MeshExternalServiceStatus>()).clone()).unwrap_or_default();
            language::to_json(&MeshExternalServiceStatus { vip, ..old })
        }
        BackendKind::MeshMultiZoneService => {
            let old = stored.map(|stored| (*stored.status::<MeshMultiZoneServiceStatus>()).clone()).unwrap_or_default();
            language::to_json(&MeshMultiZoneServiceStatus { vips: vec![vip], ..old })
        }
    }
}

/// The destination or `kuma.io/service` name that has the address.
fn owner_of_address(snapshot: &Snapshot, address: Ipv4Addr) -> Result<Option<String>, String> {
    let (world, text) = (snapshot.world(), address.to_string());
    for kind in KINDS {
        let mut owners = world.list(kind.text()).filter(|resource| addresses(kind, resource).contains(&text));
        if let Some(owner) = owners.next() {
            let ResourceKey { kind, mesh, name } = &owner.key;
            return Ok(Some(format!("{kind} {name:?} in mesh {mesh:?}")));
        }
    }
    let records = world.list("Config").filter(|record| document::name(&record.key) == Some(document::VIPS));
    for record in records {
        let vips = record.document::<Vips>().ok_or_else(|| unreadable(&record.key))?;
        if let Some((service, _)) = vips.iter().find(|(_, known)| *known == address) {
            return Ok(Some(format!("the service {service:?} in mesh {:?}", record.key.mesh)));
        }
    }
    Ok(None)
}

/// Its addresses are unknown, so none is given away.
fn unreadable(record: &ResourceKey) -> String {
    format!("the record {record} of the control plane, which has virtual addresses, cannot be read: restore it")
}
