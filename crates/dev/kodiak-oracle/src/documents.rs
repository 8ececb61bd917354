//! User documents, as typed changes for the engine.

use std::sync::Arc;

use kodiak_engine::EngineChange;
use kodiak_kinds::{draft, kinds};
use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_model::kinds::mesh::Mesh;
use kodiak_model::{Checked, Place, check, tags};
use kodiak_world::Resource;
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy, features};
use serde_json::Value;

/// Zone of the control plane.
pub const ZONE: &str = "default";

/// The document as a change for the engine, or its validation error.
pub fn change(document: Value) -> Result<EngineChange, String> {
    let resource = resource(document)?;
    let change = kodiak_world::Change::put(Arc::new(Resource::checked(&resource)));
    EngineChange::of(&change).ok_or_else(|| format!("proxies do not depend on a {}", resource.kind.name))
}

/// The stored form of the document, or its validation error.
pub fn resource(document: Value) -> Result<Checked, String> {
    let draft = draft(document).map_err(|problems| format!("{problems:?}"))?;
    let kind = kinds().by_name(&draft.kind).ok_or_else(|| format!("there is no kind {:?}", draft.kind))?;
    let place = Place::Zone { name: ZONE.to_owned() };
    let name = draft.name.clone();
    let mut resource =
        check(kind, draft, &place).map_err(|problems| format!("{} {name:?}: {problems:?}", kind.name))?;
    if let Some(mesh) = resource.typed::<Mesh>() {
        let mut mesh = Arc::unwrap_or_clone(mesh);
        mesh.fill_defaults();
        resource.replace(mesh);
    }
    if let Some(dataplane) = resource.typed::<Dataplane>() {
        let mut dataplane = Arc::unwrap_or_clone(dataplane);
        // One with a zone tag came from there.
        if !dataplane.tag_sets().any(|tags| tags.contains_key(tags::ZONE)) {
            dataplane.set_zone_tag(ZONE, false);
        }
        dataplane.on_create();
        resource.replace(dataplane);
    }
    Ok(resource)
}

/// Minimal node metadata: whether connections are redirected, a folder for sockets, and that the sidecar process forwards
/// access logs.
pub fn metadata(redirected: bool) -> NodeMetadata {
    let redirect = |port| Redirect { enabled: true, port: Some(port) };
    let transparent_proxy = redirected.then(|| TransparentProxy {
        inbound: redirect(15006),
        outbound: redirect(15001),
        dns: Redirect::default(),
        ip_family_mode: Some("ipv4".to_owned()),
    });
    NodeMetadata {
        transparent_proxy,
        features: [features::ACCESS_LOG_PIPE.to_owned()].into(),
        workdir: Some(".".to_owned()),
        ..NodeMetadata::default()
    }
}
