//! Configuration as JSON for people, without keys, passwords and tokens.

use kodiak_envoy::{
    envoy::service::discovery::v3::DiscoveryResponse,
    json::{JsonError, to_json},
};
use kodiak_xds_stream::{Encoded, Snapshot, TypeUrl};
use prost::Message as _;
use serde_json::{Map, Value, json};

const REDACTED: &str = "[redacted]";

/// Fields with keys or passwords, in lower case and without underscores, because Envoy's config dump has other spellings
/// than our JSON.
const SENSITIVE: [&str; 6] =
    ["privatekey", "privatekeyprovider", "password", "pkcs12", "sessionticketkeys", "genericsecret"];
/// Field with the headers of xDS requests, among them the token of the proxy.
const HEADERS: &str = "initialmetadata";

/// All resources by type and name, decoded from the bytes that are sent, and redacted.
pub fn config(snapshot: &Snapshot) -> Result<Value, JsonError> {
    let mut types = Map::new();
    for type_url in TypeUrl::ALL {
        let resources = snapshot.of(type_url).iter();
        let shown = resources.map(|(name, encoded)| Ok((name.to_string(), resource(encoded)?)));
        let shown: Map<String, Value> = shown.collect::<Result<_, JsonError>>()?;
        if !shown.is_empty() {
            types.insert(type_url.as_str().to_owned(), Value::Object(shown));
        }
    }
    Ok(Value::Object(types))
}

/// One resource, redacted.
pub(crate) fn resource(encoded: &Encoded) -> Result<Value, JsonError> {
    let mut shown = decoded(encoded)?;
    redact(&mut shown);
    Ok(shown)
}

fn decoded(encoded: &Encoded) -> Result<Value, JsonError> {
    let bytes = |source| JsonError::Bytes { message: encoded.name.to_string(), source };
    let response = DiscoveryResponse::decode(encoded.sotw.clone()).map_err(bytes)?;
    let mut shown = response.resources.first().map_or(Ok(Value::Null), to_json)?;
    if let Some(fields) = shown.as_object_mut() {
        // The caller groups resources by type.
        fields.shift_remove("@type");
    }
    Ok(shown)
}

/// Redacts keys, passwords and tokens anywhere in a configuration.
pub fn redact(config: &mut Value) {
    match config {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('_', "").to_ascii_lowercase();
                if SENSITIVE.contains(&name.as_str()) {
                    *value = json!({ "inlineString": REDACTED });
                } else if name == HEADERS {
                    redact_headers(value);
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Keeps only their names.
fn redact_headers(headers: &mut Value) {
    let names = headers.as_array().into_iter().flatten().map(|header| header["key"].clone());
    *headers = names.map(|name| json!({ "key": name, "value": REDACTED })).collect();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kodiak_envoy::envoy::config::cluster::v3::cluster::TransportSocketMatch;
    use kodiak_xds::{build_cluster, external, input};

    use super::*;

    #[test]
    fn keys_and_tokens_are_redacted_in_every_spelling_and_at_every_depth() {
        let mut config = json!({
            "a": [{ "private_key": { "inline_bytes": "S0VZ" } }, { "privateKey": { "inlineString": "KEY" } }],
            "initial_metadata": [{ "key": "authorization", "value": "TOKEN", "raw_value": "TOKEN" }],
            "grpc": { "initialMetadata": [{ "key": "authorization", "value": "TOKEN" }] },
            "tls": { "password": "KEY", "certificate_chain": "CERT" },
            "sessionTicketKeys": { "keys": ["KEY"] },
        });
        redact(&mut config);
        let text = config.to_string();
        for secret in ["KEY", "S0VZ", "TOKEN"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(config["initial_metadata"], json!([{ "key": "authorization", "value": "[redacted]" }]));
        assert_eq!(config["tls"]["certificate_chain"], "CERT");
    }

    #[test]
    fn client_keys_of_external_services_are_redacted() {
        let tls = input::ExternalTls {
            versions: (None, None),
            allow_renegotiation: false,
            sni: None,
            names: Vec::new(),
            authority: input::ExternalCa::Given("AUTHORITY".into()),
            client: Some(("CERTIFICATE".into(), "KEY".into())),
        };
        let endpoint = input::ExternalEndpoint { priority: 0, address: "10.0.0.1".to_owned(), port: 443 };
        let mut cluster = external::cluster(&input::ExternalCluster {
            name: "outside".into(),
            upstream: input::UpstreamProtocol::Tcp,
            endpoints: vec![endpoint],
            tls: Some(Arc::new(tls)),
            ipv6: false,
            confs: Arc::default(),
        });
        // Transport socket matches are redacted as well.
        cluster.transport_socket_matches.push(TransportSocketMatch {
            name: "some".to_owned(),
            transport_socket: cluster.transport_socket.clone(),
            ..TransportSocketMatch::default()
        });
        let shown = resource(&build_cluster(&cluster).encoded).unwrap();
        let sockets = [&shown["transportSocket"], &shown["transportSocketMatches"][0]["transportSocket"]];
        for socket in sockets {
            let certificate = &socket["typedConfig"]["commonTlsContext"]["tlsCertificates"][0];
            assert_eq!(certificate["privateKey"], json!({ "inlineString": REDACTED }));
            assert_eq!(certificate["certificateChain"], json!({ "inlineBytes": "Q0VSVElGSUNBVEU=" }));
        }
        assert!(!shown.to_string().contains("S0VZ"), "{shown}");
    }
}
