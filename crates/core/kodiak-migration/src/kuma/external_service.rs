//! ExternalService to MeshExternalService.
//!
//! ExternalServices with the same `kuma.io/service` are endpoints of one MeshExternalService.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    LegacyPolicy,
    fields::Fields,
    outcome::{ExportedResource, NewResource, Outcomes},
};

const SERVICE: &str = "kuma.io/service";
const PROTOCOL: &str = "kuma.io/protocol";

struct External {
    resource: ExportedResource,
    service: String,
    protocol: String,
    address: String,
    port: u16,
    tls: Option<Value>,
}

pub(super) fn convert(policies: Vec<LegacyPolicy>, out: &mut Outcomes) {
    let mut services: BTreeMap<String, Vec<External>> = BTreeMap::new();
    for policy in policies {
        match read(&policy) {
            Ok(external) => services.entry(external.service.clone()).or_default().push(external),
            Err(reason) => out.leave_out(policy.resource, reason, "write a MeshExternalService by hand"),
        }
    }
    for externals in services.into_values() {
        write(&externals, out);
    }
}

fn read(policy: &LegacyPolicy) -> Result<External, String> {
    let mut old = Fields::of(Some(policy.document.clone()), "")?;
    let mut tags = old.object("tags")?.ok_or("it has no tags")?;
    let service = tags.text(SERVICE)?.ok_or("it has no tag kuma.io/service")?;
    let protocol = tags.text(PROTOCOL)?.unwrap_or_else(|| "tcp".to_owned());
    if let Some(tag) = tags.rest().keys().next() {
        return Err(format!("it has the tag {tag:?}, and a MeshExternalService has no tags"));
    }
    let mut networking = old.object("networking")?.ok_or("networking is missing")?;
    let address = networking.text("address")?.ok_or("networking.address is missing")?;
    let (host, port) = address.rsplit_once(':').ok_or("networking.address has no port")?;
    let port = port.parse().map_err(|_| format!("networking.address: {port:?} is not a port"))?;
    let tls = networking.object("tls")?.map(tls).transpose()?.flatten();
    networking.end()?;
    let address = host.trim_matches(['[', ']']).to_owned();
    Ok(External { resource: policy.resource.clone(), service, protocol, address, port, tls })
}

/// `None` when TLS is off.
fn tls(mut old: Fields) -> Result<Option<Value>, String> {
    let enabled = old.flag("enabled")?.unwrap_or_default();
    let mut verification = Map::new();
    for field in ["caCert", "clientCert", "clientKey"] {
        if let Some(mut source) = old.object(field)? {
            let new = source.copy(&["secret", "inline", "inlineString"].map(|field| (field, field)));
            source.end()?;
            verification.insert(field.to_owned(), Value::Object(new));
        }
    }
    verification.extend(old.copy(&[("serverName", "serverName")]));
    let skips_name = old.flag("skipHostnameVerification")?.unwrap_or_default();
    // Without a CA, an ExternalService does not verify the certificate at all.
    let mode = match (verification.contains_key("caCert"), skips_name) {
        (false, _) => "SkipAll",
        (true, true) => "SkipSAN",
        (true, false) => "Secured",
    };
    verification.insert("mode".to_owned(), json!(mode));
    let mut new = Map::from_iter([("enabled".to_owned(), json!(true))]);
    new.extend(old.copy(&[("allowRenegotiation", "allowRenegotiation")]));
    old.end()?;
    new.insert("verification".to_owned(), Value::Object(verification));
    Ok(enabled.then_some(Value::Object(new)))
}

fn write(externals: &[External], out: &mut Outcomes) {
    let first = &externals[0];
    let same = |one: &External| (&one.protocol, one.port, &one.tls) == (&first.protocol, first.port, &first.tls);
    if !externals.iter().all(same) {
        for one in externals {
            let reason = format!(
                "ExternalServices with {SERVICE}: {} differ in protocol, port or TLS, which a MeshExternalService has once",
                first.service
            );
            out.leave_out(one.resource.clone(), reason, "write a MeshExternalService for each by hand");
        }
        return;
    }
    let endpoints: Vec<_> = externals.iter().map(|one| json!({ "address": one.address, "port": one.port })).collect();
    let mut spec = Map::from_iter([
        ("match".to_owned(), json!({ "type": "HostnameGenerator", "port": first.port, "protocol": first.protocol })),
        ("endpoints".to_owned(), json!(endpoints)),
    ]);
    spec.extend(first.tls.clone().map(|tls| ("tls".to_owned(), tls)));
    let ExportedResource { mesh, name, .. } = &first.resource;
    let notes = vec![
        format!(
            "callers use {name}.extsvc.mesh.local:{} (see HostnameGenerator); {}.mesh and its address are gone",
            first.port, first.service
        ),
        "policies for the service by its tag do not apply to it; target MeshExternalService instead".to_owned(),
    ];
    let from: Vec<_> = externals.iter().map(|one| one.resource.clone()).collect();
    let new = NewResource { kind: "MeshExternalService", mesh: mesh.clone(), name: name.clone(), spec: spec.into() };
    out.convert(&from, vec![new], notes);
}
