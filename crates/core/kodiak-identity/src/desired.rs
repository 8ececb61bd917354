//! MeshIdentities and MeshTrusts that take part in the rollout of a mesh, and the target of that rollout.

use std::sync::Arc;

use kodiak_model::kinds::{
    mesh::MeshServicesMode,
    mesh_identity::{Bundled, MeshTrustCreation, Provider, ProviderType, SpireAgent},
    mesh_trust::MeshTrust,
};
use kodiak_rollout::{AppliedProvider, DesiredIdentities, Rollout};
use kodiak_world::{World, document};

use crate::Identity;

/// Lifetime of certificates, unless the MeshIdentity says otherwise: 24 h.
const LIFETIME_SECONDS: u64 = 86_400;
/// For connecting to a SPIRE agent, unless the MeshIdentity says otherwise.
const SPIRE_TIMEOUT_MILLISECONDS: u64 = 1_000;
/// In place of CAs that only a control plane has.
const PLACEHOLDER: &str = "[placeholder]";

/// Last step of the rollout of a mesh. `None` without the mesh.
pub fn target(world: &World, mesh: &str) -> Option<Rollout> {
    world.mesh(mesh).map(|spec| Rollout::target(&spec, &desired(world, mesh)))
}

/// Current step of the rollout of a mesh; without a recorded one, the mesh is at its target.
pub fn current(world: &World, mesh: &str) -> Option<Rollout> {
    let stored = world.get(&document::key(mesh, document::ROLLOUT)).and_then(|step| step.document::<Rollout>());
    stored.or_else(|| target(world, mesh))
}

/// As the control plane recorded them; from files alone, as it would.
pub fn desired(world: &World, mesh: &str) -> DesiredIdentities {
    let recorded = world.get(&document::key(mesh, document::IDENTITIES)).and_then(|found| found.document());
    recorded.unwrap_or_else(|| expected(world, mesh))
}

/// As the control plane would record them, with placeholders for its CAs.
pub fn expected(world: &World, mesh: &str) -> DesiredIdentities {
    let mut desired = DesiredIdentities::default();
    for trust in world.list_in("MeshTrust", mesh).filter_map(|trust| trust.spec::<MeshTrust>()) {
        let pems = trust.ca_bundles.iter().filter_map(|bundle| bundle.pem.as_ref());
        desired.trust(trust.trust_domain.as_str().into(), pems.map(|pem| pem.value.as_str().into()));
    }
    if world.mesh_services_mode(mesh) != MeshServicesMode::Exclusive {
        return desired;
    }
    for identity in world.list_in("MeshIdentity", mesh).filter_map(|found| Identity::of(found)) {
        let provider = identity.spec.provider.as_ref();
        let applied = provider.and_then(|provider| applied_provider(provider, PLACEHOLDER));
        if identity.failed || provider.is_some() && applied.is_none() {
            continue;
        }
        let Some(Ok(applied)) = identity.applied("", applied) else { continue };
        if creates_trust(provider) && !desired.trust_domains.contains_key(&applied.trust_domain) {
            desired.trust(applied.trust_domain.clone(), [PLACEHOLDER.into()]);
        }
        desired.identities.push(Arc::new(applied));
    }
    desired
}

/// `ca`: SHA-256 of the CA certificate. `None` for a provider that this control plane does not have.
pub fn applied_provider(provider: &Provider, ca: &str) -> Option<AppliedProvider> {
    match provider.provider_type.as_ref()?.known()? {
        ProviderType::Bundled => {
            let expiry = bundled(provider).certificate_parameters.and_then(|parameters| parameters.expiry);
            let seconds = expiry.and_then(|expiry| u64::try_from(expiry.nanos() / 1_000_000_000).ok());
            let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(LIFETIME_SECONDS);
            Some(AppliedProvider::Bundled { ca: ca.into(), seconds })
        }
        ProviderType::Spire => {
            let agent = provider.spire.as_ref().and_then(|spire| spire.agent.as_ref());
            let timeout = agent.and_then(|SpireAgent { timeout }| *timeout);
            let milliseconds = timeout.and_then(|timeout| u64::try_from(timeout.nanos() / 1_000_000).ok());
            let timeout_milliseconds = milliseconds.unwrap_or(SPIRE_TIMEOUT_MILLISECONDS);
            Some(AppliedProvider::Spire { timeout_milliseconds })
        }
        ProviderType::Extension => None,
    }
}

/// Whether the control plane creates a MeshTrust with the CA of the provider.
pub fn creates_trust(provider: Option<&Provider>) -> bool {
    let Some(provider) = provider.filter(|provider| {
        provider.provider_type.as_ref().is_some_and(|provider_type| provider_type.is(ProviderType::Bundled))
    }) else {
        return false;
    };
    !bundled(provider).mesh_trust_creation.is_some_and(|creation| creation.is(MeshTrustCreation::Disabled))
}

fn bundled(provider: &Provider) -> Bundled {
    provider.bundled.clone().unwrap_or_default()
}
