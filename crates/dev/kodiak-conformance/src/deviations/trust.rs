//! [`super::TRUST_IN_SECRETS`]: validation contexts are compared by content, wherever they are.

use serde_json::{Map, Value};

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// Replaces references to validation contexts of a whole configuration by their content, joined with what is beside the
/// reference, and removes the secrets that were referenced. Applied to both sides, so CAs and SPIFFE IDs are compared.
pub(crate) fn inlined(xds: &mut Value) {
    let secrets = xds.get(SECRET).and_then(Value::as_object).into_iter().flatten();
    let contexts = secrets.filter_map(|(name, secret)| Some((name.clone(), secret.get("validationContext")?.clone())));
    let contexts: Map<String, Value> = contexts.collect();
    let mut referenced = Vec::new();
    inline(xds, &contexts, &mut referenced);
    if let Some(secrets) = xds.get_mut(SECRET).and_then(Value::as_object_mut) {
        secrets.retain(|name, _| !referenced.contains(name));
    }
}

fn inline(value: &mut Value, contexts: &Map<String, Value>, referenced: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(context) = joined(fields, contexts, referenced) {
                fields.remove("combinedValidationContext");
                fields.remove("validationContextSdsSecretConfig");
                fields.insert("validationContext".to_owned(), context);
            }
            fields.values_mut().for_each(|value| inline(value, contexts, referenced));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, contexts, referenced)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Validation context of a TLS context that references a secret of the configuration.
fn joined(tls: &Map<String, Value>, contexts: &Map<String, Value>, referenced: &mut Vec<String>) -> Option<Value> {
    let both = tls.get("combinedValidationContext").and_then(Value::as_object);
    let beside = both.and_then(|both| both.get("defaultValidationContext")).and_then(Value::as_object);
    let reference = both.unwrap_or(tls).get("validationContextSdsSecretConfig")?;
    let name = reference["name"].as_str()?;
    let mut context = contexts.get(name)?.as_object()?.clone();
    context.extend(beside.into_iter().flatten().map(|(field, value)| (field.clone(), value.clone())));
    referenced.push(name.to_owned());
    Some(Value::Object(context))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_of_secrets_is_compared_wherever_it_is() {
        let (ca, sans) = (json!({ "inlineBytes": "Q0E=" }), json!([{ "matcher": { "exact": "spiffe://a/b" } }]));
        let config = |context: Value, secret: Value| json!({ "t": { "x": { "tls": context } }, SECRET: secret });
        let reference = |name: &str| json!({ "name": name, "sdsConfig": { "ads": {} } });
        let mut beside = config(
            json!({ "combinedValidationContext": {
                "defaultValidationContext": { "matchTypedSubjectAltNames": sans },
                "validationContextSdsSecretConfig": reference("ca"),
            }}),
            json!({ "ca": { "validationContext": { "trustedCa": ca } }, "cert": {} }),
        );
        let mut inside = config(
            json!({ "validationContextSdsSecretConfig": reference("ca:x") }),
            json!({
                "ca:x": { "validationContext": { "trustedCa": ca, "matchTypedSubjectAltNames": sans } }, "cert": {},
            }),
        );
        let mut other = inside.clone();
        other[SECRET]["ca:x"]["validationContext"]["matchTypedSubjectAltNames"][0]["matcher"]["exact"] = json!("no");
        for config in [&mut beside, &mut inside, &mut other] {
            inlined(config);
            assert_eq!(config[SECRET], json!({ "cert": {} }));
        }
        assert_eq!(beside, inside);
        assert_ne!(beside, other);
    }
}
