//! Changes of the store as changes for the engine.

use std::sync::Arc;

use kodiak_kinds::kinds;
use kodiak_model::{Kind, ProxyKey, ResourceKey, kinds::dataplane_insight::DataplaneInsight};
use kodiak_policies::otlp_backends::OtlpBackend;
use kodiak_reachability::Mode;
use kodiak_world::{World, destination, document};

use crate::{AcknowledgedState, EngineChange};

impl EngineChange {
    /// `None` for resources that no proxy depends on. A resource without a readable version counts as deleted, but for the
    /// records of the control plane: their last readable version stays.
    pub fn of(change: &kodiak_world::Change) -> Option<Self> {
        let kodiak_world::Change { key, resource, .. } = change;
        let resource = resource.as_deref();
        let ResourceKey { kind, mesh, name } = key.clone();
        Some(match &*kind {
            "Mesh" => {
                let reachability = resource.and_then(|mesh| Mode::in_labels(&mesh.labels));
                Self::Mesh { name, mesh: resource.and_then(kodiak_world::Resource::spec), reachability }
            }
            "Dataplane" => {
                let dataplane = resource.and_then(|dataplane| dataplane.proxy().cloned());
                Self::Dataplane { key: ProxyKey { mesh, name }, dataplane }
            }
            "DataplaneInsight" => {
                let insight = resource.and_then(kodiak_world::Resource::spec::<DataplaneInsight>);
                let state = insight.map(|insight| AcknowledgedState::of(&insight));
                Self::Acknowledged { key: ProxyKey { mesh, name }, state }
            }
            "MeshOpenTelemetryBackend" => {
                let backend = resource.and_then(|backend| {
                    Some(OtlpBackend {
                        labels: backend.labels.clone(),
                        created: backend.created,
                        spec: backend.spec()?,
                    })
                });
                Self::OtlpBackend { mesh, name, backend: backend.map(Arc::new) }
            }
            "Secret" => Self::Secret { mesh },
            "ZoneEgress" => Self::ZoneEgress { name, egress: resource.and_then(kodiak_world::Resource::spec) },
            _ if let Some(document) = document::name(key) => match document {
                // Virtual addresses that cannot be read stay as they are.
                document::VIPS => Self::Vips { mesh, vips: document::read(resource).ok()? },
                document::ROLLOUT => match document::read(resource) {
                    Ok(rollout) => Self::Rollout { mesh, rollout },
                    Err(_) => Self::UnreadableRollout { mesh },
                },
                _ => return None,
            },
            kind if let Some((_, kind)) = destination::KINDS.iter().find(|(known, _)| known.name == kind) => {
                let destination = resource.and_then(|destination| destination.destination().cloned());
                Self::Destination { mesh, kind: *kind, name, destination }
            }
            kind => {
                let kind = kinds().by_name(kind).filter(|kind| kind.is_policy())?;
                let policy = resource.and_then(|policy| policy.policy().cloned());
                Self::Policy { mesh, key: (kind.name, name), policy }
            }
        })
    }

    /// All resources of a mesh, for an empty engine. Without a recorded step of its rollout, the mesh is at its target.
    pub fn of_mesh(world: &World, mesh: &str) -> Vec<Self> {
        let itself = world.get(&ResourceKey::global("Mesh", mesh));
        let policies = kinds().iter().filter(|kind| kind.is_policy()).map(|kind: &Kind| kind.name);
        let destinations = destination::KINDS.iter().map(|(kind, _)| kind.name);
        let within = ["Dataplane", "MeshOpenTelemetryBackend"].into_iter().chain(destinations).chain(policies);
        let within = within.flat_map(|kind| world.list_in(kind, mesh));
        let documents = [document::VIPS, document::ROLLOUT].map(|name| world.get(&document::key(mesh, name)));
        let has_step = world.get(&document::key(mesh, document::ROLLOUT)).is_some();
        let target = || Self::Rollout { mesh: mesh.into(), rollout: kodiak_identity::target(world, mesh) };
        let changes = itself
            .into_iter()
            .chain(world.list("ZoneEgress"))
            .chain(within)
            .chain(documents.into_iter().flatten())
            .filter_map(|resource| Self::of(&kodiak_world::Change::put(resource.clone())));
        changes.chain((!has_step).then(target)).collect()
    }
}
