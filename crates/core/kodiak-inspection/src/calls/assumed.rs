//! Meshes that differ from the stored one by a single assumption.

use kodiak_model::{
    ResourceKey,
    kinds::mesh::{Mesh, Mtls, MtlsBackend, MtlsMode},
};
use kodiak_policies::mesh_traffic_permission::{self, MeshTrafficPermission};
use kodiak_world::{Resource, Stored, World, document};
use serde_json::{Value, json};

/// The same mesh with permissions enforced: after a complete rollout of strict mutual TLS.
pub fn with_strict_mtls(world: &World, mesh: &str) -> World {
    let mut strict = world.clone();
    let key = ResourceKey::global("Mesh", mesh);
    let (Some(own), Some(spec)) = (world.get(&key), world.mesh(mesh)) else { return strict };
    let mut spec: Mesh = (*spec).clone();
    let mtls = spec.mtls.get_or_insert_with(Mtls::default);
    if mtls.enabled_backend().is_none() {
        let name = "strict".to_owned();
        mtls.backends.push(MtlsBackend {
            name: name.clone(),
            backend_type: "builtin".to_owned(),
            ..MtlsBackend::default()
        });
        mtls.enabled_backend = name;
    }
    let enabled = mtls.enabled_backend.clone();
    for backend in mtls.backends.iter_mut().filter(|backend| backend.name == enabled) {
        backend.mode = Some(MtlsMode::Strict.into());
    }
    strict.delete(&document::key(mesh, document::ROLLOUT));
    put(&mut strict, own, &serde_json::to_string(&spec).expect("a Mesh has text keys"));
    strict
}

/// The same mesh in which `AllowWithShadowDeny` denies.
pub fn with_shadow_denials(world: &World, mesh: &str) -> World {
    let mut denying = world.clone();
    for own in world.list_in(mesh_traffic_permission::KIND.name, mesh) {
        let spec = own.spec::<MeshTrafficPermission>().and_then(|spec| serde_json::to_value(&*spec).ok());
        let Some(mut spec) = spec else { continue };
        for item in spec["from"].as_array_mut().into_iter().flatten() {
            let action = &mut item["default"]["action"];
            if *action == "AllowWithShadowDeny" {
                *action = json!("Deny");
            }
        }
        for rule in spec["rules"].as_array_mut().into_iter().flatten() {
            let conf = &mut rule["default"];
            let shadow = conf.as_object_mut().and_then(|conf| conf.remove("allowWithShadowDeny"));
            let Some(Value::Array(shadow)) = shadow else { continue };
            match &mut conf["deny"] {
                Value::Array(deny) => deny.extend(shadow),
                deny => *deny = Value::Array(shadow),
            }
        }
        put(&mut denying, own, &spec.to_string());
    }
    denying
}

/// The same mesh without this MeshTrafficPermission. `None` if it does not exist.
pub fn without_permission(world: &World, mesh: &str, name: &str) -> Option<World> {
    let key = ResourceKey::in_mesh(mesh_traffic_permission::KIND.name, mesh, name);
    world.get(&key)?;
    let mut without = world.clone();
    without.delete(&key);
    Some(without)
}

/// Replaces the spec of a resource.
fn put(world: &mut World, own: &Resource, spec: &str) {
    world.put(Stored {
        key: &own.key,
        labels: &own.labels,
        created: own.created,
        version: own.version + 1,
        status_version: 0,
        revision: own.revision,
        spec: &spec.into(),
        status: None,
    });
}
