//! The Dataplane of a proxy: the stored one, or the one that the proxy provides.

use std::sync::Arc;

use kodiak_catalog::{Catalog, Target};
use kodiak_model::{
    Draft, Kind, Labels, Place, ProxyKey, Shape, check,
    kinds::{
        dataplane::Dataplane,
        mesh::{Mesh, MeshServicesMode},
    },
    yaml,
};
use serde_json::{Value, json};

/// Largest text that is read as a Dataplane.
const LONGEST_TEXT: usize = 256 * 1024;

/// A Dataplane as it is stored, or as it will be stored.
pub(crate) struct EffectiveDataplane {
    pub(crate) labels: Labels,
    pub(crate) spec: Dataplane,
}

impl EffectiveDataplane {
    /// The whole resource, as a user would write it.
    pub(crate) fn document(&self, key: &ProxyKey) -> Value {
        let ProxyKey { mesh, name } = key;
        let mut document = json!({ "type": kind().name, "mesh": mesh, "name": name, "labels": self.labels });
        if let (Value::Object(document), Ok(Value::Object(spec))) = (&mut document, serde_json::to_value(&self.spec)) {
            document.extend(spec);
        }
        document
    }
}

/// A Dataplane that a proxy provides: the document as written, and the Dataplane to store.
pub(crate) struct ProvidedDataplane {
    pub(crate) document: Value,
    pub(crate) effective: EffectiveDataplane,
}

pub(crate) fn kind() -> &'static Kind {
    kodiak_kinds::kinds().by_name("Dataplane").expect("Dataplane is in the table of kinds")
}

pub(crate) fn target(key: &ProxyKey) -> Target<'_> {
    Target { kind: kind(), mesh: &key.mesh, name: &key.name }
}

/// Reads YAML or JSON. It must be a valid Dataplane of this proxy.
pub(crate) fn provided(
    catalog: &Catalog,
    mesh: &Mesh,
    key: &ProxyKey,
    text: &str,
) -> Result<ProvidedDataplane, String> {
    let document = read(text)?;
    let draft =
        Draft::from_value(document.clone(), |_| Some(Shape::Legacy)).map_err(|problems| problems.to_string())?;
    if draft.kind != kind().name {
        return Err(format!("type: must be Dataplane, and is {:?}", draft.kind));
    }
    let named = ProxyKey::new(draft.mesh.as_deref().unwrap_or_default(), &draft.name);
    if named != *key {
        return Err(format!("the Dataplane is {named} but the proxy is {key}; both must have the same mesh and name"));
    }
    let checked = check::check(kind(), draft, catalog.place()).map_err(|problems| problems.to_string())?;
    let mut spec = checked.typed::<Dataplane>().map(Arc::unwrap_or_clone).expect("a Dataplane was checked");
    if let Place::Zone { name } = catalog.place() {
        spec.set_zone_tag(name, mesh.mesh_services_mode() == MeshServicesMode::Exclusive);
    }
    Ok(ProvidedDataplane { document, effective: EffectiveDataplane { labels: checked.labels, spec } })
}

fn read(text: &str) -> Result<Value, String> {
    if text.len() > LONGEST_TEXT {
        return Err(format!("the Dataplane is longer than {LONGEST_TEXT} bytes"));
    }
    let mut documents = yaml::parse(text).map_err(|error| format!("the Dataplane is not YAML: {error}"))?;
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => Ok(document.value),
        (Some(_), false) => Err("more than one YAML document; send only the Dataplane".to_owned()),
        (None, _) => Err("the Dataplane is empty".to_owned()),
    }
}
