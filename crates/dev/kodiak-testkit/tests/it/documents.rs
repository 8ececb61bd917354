//! User documents, as typed changes for the engine.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_engine::Change;
use kodiak_kinds::{draft, kinds};
use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_model::kinds::mesh::Mesh;
use kodiak_model::policy::Body;
use kodiak_model::{Checked, Place, ProxyKey, check, language, tags};
use kodiak_rules::{Policy, Proxy};
use kodiak_views::destination::{self, Destination, Stored};
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy};
use serde_json::Value;

/// Zone of the control plane.
pub(crate) const ZONE: &str = "default";

/// The stored form of the document, or its validation error.
pub(crate) fn change(document: Value) -> Result<Change, String> {
    let draft = draft(document).map_err(|problems| format!("{problems:?}"))?;
    let kind = kinds().by_name(&draft.kind).ok_or_else(|| format!("there is no kind {:?}", draft.kind))?;
    let place = Place::Zone { name: ZONE.to_owned() };
    let resource = check(kind, draft, &place).map_err(|problems| format!("{problems:?}"))?;
    let Checked { mesh, name, labels, spec, .. } = resource;
    let (mesh, name, labels) = (Arc::<str>::from(mesh), Arc::<str>::from(name), Arc::new(labels));
    let unreadable = |error: serde_json::Error| error.to_string();
    match kind.name {
        "Mesh" => {
            let mut mesh: Mesh = language::decode(&spec).map_err(unreadable)?;
            mesh.fill_defaults();
            Ok(Change::Mesh { name, mesh: Some(Arc::new(mesh)) })
        }
        "Dataplane" => {
            let mut dataplane: Dataplane = language::decode(&spec).map_err(unreadable)?;
            // A Dataplane with a zone tag came from that zone.
            if !dataplane.tag_sets().any(|tags| tags.contains_key(tags::ZONE)) {
                dataplane.set_zone_tag(ZONE, false);
            }
            dataplane.on_create();
            let proxy = Proxy {
                mesh: mesh.clone(),
                name: name.clone(),
                labels,
                dataplane: Arc::new(dataplane),
                admission: None,
            };
            Ok(Change::Dataplane { key: ProxyKey { mesh, name }, dataplane: Some(Arc::new(proxy)) })
        }
        kind if let Some((_, kind)) = destination::KINDS.iter().find(|(known, _)| known.name == kind) => {
            let created = Timestamp::UNIX_EPOCH;
            let stored = Stored { mesh: &mesh, name: &name, labels: &labels, created, spec: &spec, status: "" };
            let destination = Destination::read(*kind, stored).map(Arc::new);
            Ok(Change::Destination { mesh, kind: *kind, name, destination })
        }
        _ => {
            let facts = kind.policy.as_ref().ok_or_else(|| format!("proxies do not depend on a {}", kind.name))?;
            let body = Body::read(facts, &serde_json::from_str(&spec).map_err(unreadable)?).map_err(unreadable)?;
            let policy = Policy { kind, mesh: mesh.clone(), name: name.clone(), labels, body };
            Ok(Change::Policy { mesh, key: (kind.name, name), policy: Some(Arc::new(policy)) })
        }
    }
}

/// Minimal node metadata: only whether connections are redirected.
pub(crate) fn metadata(redirected: bool) -> NodeMetadata {
    let redirect = |port| Redirect { enabled: true, port: Some(port) };
    let transparent_proxy = redirected.then(|| TransparentProxy {
        inbound: redirect(15006),
        outbound: redirect(15001),
        dns: Redirect::default(),
        ip_family_mode: Some("ipv4".to_owned()),
    });
    NodeMetadata { transparent_proxy, ..NodeMetadata::default() }
}
