//! Resources that are created with a mesh: the signing key of its dataplane tokens, its CA, and its first policies.

use kodiak_crypto::{CaKeyType, TEN_YEARS};
use kodiak_model::{
    Checked,
    kinds::mesh::{BackendConf, BuiltinCa, Mesh, parse_period},
};
use kodiak_store::{Expect, Snapshot, Write};
use kodiak_tokens::names::{FIRST_SERIAL, TokenKind, dataplane_signing_key};

use super::{policies, resource, secret, secrets};
use crate::{
    Catalog, Refusal,
    ca::{self, rsa_bits},
    signing,
};

pub(super) async fn companions(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &Checked,
    created: bool,
) -> Result<Vec<Write>, Refusal> {
    let name = checked.name.as_str();
    let mesh = checked.typed::<Mesh>().expect("a Mesh was checked");
    let mut writes = builtin_authorities(catalog, snapshot, name, &mesh).await?;
    if !created {
        return Ok(writes);
    }
    if signing::newest(snapshot, TokenKind::Dataplane { mesh: name }).is_none() {
        let key = secrets::signing_key().await?;
        writes.push(secret(catalog, name, dataplane_signing_key(name, FIRST_SERIAL).name(), &key, Expect::Absent));
    }
    for (kind, prefix, spec) in policies::of_new_mesh() {
        if !mesh.skips_initial_policy(kind) {
            let kind = kodiak_kinds::kinds().by_name(kind).expect("initial policies are of kinds in the table");
            writes.push(resource(catalog, kind, name, &format!("{prefix}-{name}"), spec)?);
        }
    }
    Ok(writes)
}

/// Certificates and keys of builtin backends, created when they first occur and kept from then on.
async fn builtin_authorities(
    catalog: &Catalog,
    snapshot: &Snapshot,
    name: &str,
    mesh: &Mesh,
) -> Result<Vec<Write>, Refusal> {
    let mut writes = Vec::new();
    for backend in ca::backends(mesh, ca::BUILTIN) {
        if ca::is_made(snapshot, name, &backend.name) {
            continue;
        }
        let cert_name = ca::cert_secret(name, &backend.name);
        let key_name = ca::key_secret(name, &backend.name);
        let settings = BackendConf::read::<BuiltinCa>(backend.conf.as_ref()).unwrap_or_default();
        let cert = settings.ca_cert.unwrap_or_default();
        let lives = parse_period(&cert.expiration).filter(|lives| !lives.is_zero()).unwrap_or(TEN_YEARS);
        let uri = format!("spiffe://{name}");
        // Unsupported sizes were rejected before.
        let key_type = CaKeyType::Rsa(rsa_bits(&cert).map_err(Refusal::make)?);
        let (cert, key) = secrets::root_ca(name.to_owned(), lives, key_type, Some(uri)).await?;
        writes.push(secret(catalog, name, &cert_name, cert.as_bytes(), Expect::Absent));
        writes.push(secret(catalog, name, &key_name, key.as_bytes(), Expect::Absent));
    }
    Ok(writes)
}
