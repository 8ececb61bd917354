//! Finds the data sources of a document: referenced Secrets, files and environment variables, and inline bytes.
//!
//! Data sources are recognised by the schema of the kind, not by a list of kinds: an object with `secret` beside
//! `inline` or `inlineString`, and an object with `secretRef`. Settings of backends in legacy kinds have no schema of
//! their own, so there every object with such a member counts. A new kind is covered without a line of code.

use serde_json::{Map, Value, json};

use crate::{
    FieldPath, Kind, Shape,
    schema::{Node, Property},
};

/// Fields that hold only certificates. Inline bytes in any other field count as a private key.
const PUBLIC: [&str; 5] = ["cert", "caCert", "ca_cert", "clientCert", "certificate"];

/// Marks a private key anywhere in the bytes, also after a certificate.
const KEY_MARK: &str = "PRIVATE KEY-----";

/// One member of a data source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSource {
    /// Such as `spec.tls.verification.clientKey.secret`.
    pub path: String,
    /// JSON pointer, within the spec, to the data source that contains the member.
    pub pointer: String,
    pub form: SourceForm,
    pub named: SourceLocation,
}

impl FoundSource {
    /// The path without list indexes, which identifies a reference after its list was reordered.
    pub fn field(&self) -> String {
        let mut field = String::with_capacity(self.path.len());
        let mut rest = self.path.as_str();
        while let Some(start) = rest.find('[') {
            let Some(end) = rest[start..].find(']') else { break };
            field.push_str(&rest[..start]);
            field.push_str("[]");
            rest = &rest[start + end + 1..];
        }
        field + rest
    }
}

/// Syntax of a data source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceForm {
    /// `{secret: name}`
    Legacy,
    /// `{type: Secret, secretRef: {kind: Secret, name: name}}`
    Secure,
    /// Backend settings, which have no schema.
    Untyped,
}

impl SourceForm {
    /// A data source in this syntax that references only the Secret.
    pub fn reference(self, secret: &str) -> Value {
        match self {
            Self::Legacy | Self::Untyped => json!({ "secret": secret }),
            Self::Secure => json!({ "type": "Secret", "secretRef": { "kind": "Secret", "name": secret } }),
        }
    }
}

/// Location of the bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum SourceLocation {
    /// A Secret of the same mesh.
    Secret(String),
    /// A file on the control plane's host.
    File(String),
    /// An environment variable of the control plane.
    EnvVar(String),
    Inline(Inline),
}

/// Bytes in the document itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Inline {
    pub text: String,
    pub base64: bool,
    /// The field may hold a private key.
    pub private: bool,
}

impl Inline {
    /// Whether only administrators may read the bytes: because of the field, or because they contain a private key.
    pub fn is_private(&self, bytes: &[u8]) -> bool {
        self.private || bytes.windows(KEY_MARK.len()).any(|window| window == KEY_MARK.as_bytes())
    }
}

/// Inline bytes may be a private key.
impl std::fmt::Debug for SourceLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(name) => f.debug_tuple("Secret").field(name).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::EnvVar(name) => f.debug_tuple("EnvVar").field(name).finish(),
            Self::Inline(_) => f.write_str("Inline(***)"),
        }
    }
}

/// All data sources of a spec that [`conform`](mod@crate::conform) accepted.
pub fn sources(kind: &Kind, spec: &Value) -> Vec<FoundSource> {
    let mut walk = Walk { shape: kind.shape, found: Vec::new() };
    let root = match kind.shape {
        Shape::Legacy => FieldPath::ROOT,
        Shape::Plugin => FieldPath::SPEC,
    };
    walk.value(kind.spec_node(), spec, &Place { at: &root, pointer: String::new(), field: "" });
    walk.found
}

/// Whether specs of this kind can have data sources.
pub fn has_sources(kind: &Kind) -> bool {
    fn has(node: &Node, shape: Shape) -> bool {
        match node {
            Node::Any => shape == Shape::Legacy,
            Node::List { items: node, .. } | Node::Map(node) => has(node, shape),
            Node::Object(properties) => {
                form(properties).is_some() || properties.iter().any(|property| has(&property.node, shape))
            }
            Node::Boolean | Node::Number(_) | Node::Integer(_) | Node::Text(_) | Node::IntOrString => false,
        }
    }
    has(kind.spec_node(), kind.shape)
}

/// Syntax of a data source with these properties; `None` when the object is not a data source.
pub fn form(properties: &[Property]) -> Option<SourceForm> {
    let has = |name: &str| properties.iter().any(|property| property.name == name);
    if has("secretRef") {
        Some(SourceForm::Secure)
    } else if has("secret") && (has("inline") || has("inlineString") || has("file")) {
        Some(SourceForm::Legacy)
    } else {
        None
    }
}

struct Walk {
    shape: Shape,
    found: Vec<FoundSource>,
}

/// Position of the walk.
struct Place<'a> {
    at: &'a FieldPath<'a>,
    pointer: String,
    /// The nearest named field.
    field: &'a str,
}

impl Walk {
    fn value(&mut self, node: &Node, value: &Value, place: &Place<'_>) {
        match (node, value) {
            (Node::List { items, .. }, Value::Array(list)) => {
                for (n, item) in list.iter().enumerate() {
                    let at = place.at.index(n);
                    let pointer = format!("{}/{n}", place.pointer);
                    self.value(items, item, &Place { at: &at, pointer, field: place.field });
                }
            }
            (Node::Map(values), Value::Object(map)) => {
                for (key, value) in map {
                    let at = place.at.key(key);
                    self.value(values, value, &Place { at: &at, pointer: below(&place.pointer, key), field: key });
                }
            }
            (Node::Object(properties), Value::Object(map)) => {
                if let Some(form) = form(properties) {
                    self.source(form, map, place);
                }
                for property in properties {
                    let Some(value) = map.get(&property.name) else { continue };
                    let at = place.at.field(&property.name);
                    let pointer = below(&place.pointer, &property.name);
                    self.value(&property.node, value, &Place { at: &at, pointer, field: &property.name });
                }
            }
            // Plugin kinds have untyped fields for Envoy or an extension, which are never data sources.
            (Node::Any, value) if self.shape == Shape::Legacy => self.untyped(value, place),
            _ => (),
        }
    }

    fn untyped(&mut self, value: &Value, place: &Place<'_>) {
        match value {
            Value::Array(list) => {
                for (n, item) in list.iter().enumerate() {
                    let at = place.at.index(n);
                    let pointer = format!("{}/{n}", place.pointer);
                    self.untyped(item, &Place { at: &at, pointer, field: place.field });
                }
            }
            Value::Object(map) => {
                self.source(SourceForm::Untyped, map, place);
                for (key, value) in map {
                    let at = place.at.field(key);
                    self.untyped(value, &Place { at: &at, pointer: below(&place.pointer, key), field: key });
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }

    /// Reports all members, also those that another member overrides.
    fn source(&mut self, form: SourceForm, map: &Map<String, Value>, place: &Place<'_>) {
        let text = |member: &[&str]| {
            let mut value = map.get(*member.first()?)?;
            for name in &member[1..] {
                value = value.get(*name)?;
            }
            value.as_str().map(str::to_owned)
        };
        let private = !PUBLIC.contains(&place.field);
        let inline = |base64| move |text| SourceLocation::Inline(Inline { text, base64, private });
        let members: [(&[&str], Option<SourceLocation>); 9] = [
            (&["secret"], text(&["secret"]).map(SourceLocation::Secret)),
            (&["secretRef", "name"], text(&["secretRef", "name"]).map(SourceLocation::Secret)),
            (&["file"], text(&["file"]).map(SourceLocation::File)),
            (&["file", "path"], text(&["file", "path"]).map(SourceLocation::File)),
            (&["envVar", "name"], text(&["envVar", "name"]).map(SourceLocation::EnvVar)),
            (&["inline"], text(&["inline"]).map(inline(true))),
            (&["inlineString"], text(&["inlineString"]).map(inline(false))),
            (&["inline_string"], text(&["inline_string"]).map(inline(false))),
            (&["insecureInline", "value"], text(&["insecureInline", "value"]).map(inline(false))),
        ];
        for (member, named) in members {
            let Some(named) = named else { continue };
            let path = member.iter().fold(place.at.to_string(), |path, name| {
                if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") }
            });
            self.found.push(FoundSource { path, pointer: place.pointer.clone(), form, named });
        }
    }
}

fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{mesh, mesh_external_service, mesh_gateway, mesh_identity};

    fn found(kind: &Kind, spec: &Value) -> Vec<String> {
        sources(kind, spec)
            .iter()
            .map(|source| {
                let named = match &source.named {
                    SourceLocation::Secret(name) => format!("secret {name}"),
                    SourceLocation::File(path) => format!("file {path}"),
                    SourceLocation::EnvVar(name) => format!("env {name}"),
                    SourceLocation::Inline(Inline { text, base64, private }) => {
                        let kind = if *private { "private" } else { "public" };
                        format!("{kind} {}{text}", if *base64 { "base64 " } else { "" })
                    }
                };
                assert!(spec.pointer(&source.pointer).is_some(), "{} leads nowhere", source.pointer);
                format!("{}: {named}", source.path)
            })
            .collect()
    }

    #[test]
    fn finds_every_member_of_a_data_source() {
        let verification =
            json!({ "caCert": { "inline": "Yw==" }, "clientKey": { "secret": "key", "inlineString": "k" } });
        assert_eq!(
            found(&mesh_external_service::KIND, &json!({ "tls": { "verification": verification } })),
            [
                "spec.tls.verification.caCert.inline: public base64 Yw==",
                "spec.tls.verification.clientKey.secret: secret key",
                "spec.tls.verification.clientKey.inlineString: private k",
            ]
        );
    }

    #[test]
    fn finds_secure_data_sources() {
        let ca = json!({
            "certificate": { "type": "File", "file": { "path": "/ca.pem" } },
            "privateKey": { "type": "Secret", "secretRef": { "kind": "Secret", "name": "key" }, "envVar": { "name": "KEY" },
                "insecureInline": { "value": "k" } },
        });
        assert_eq!(
            found(&mesh_identity::KIND, &json!({ "provider": { "bundled": { "ca": ca } } })),
            [
                "spec.provider.bundled.ca.certificate.file.path: file /ca.pem",
                "spec.provider.bundled.ca.privateKey.secretRef.name: secret key",
                "spec.provider.bundled.ca.privateKey.envVar.name: env KEY",
                "spec.provider.bundled.ca.privateKey.insecureInline.value: private k",
            ]
        );
    }

    #[test]
    fn finds_data_sources_in_lists_and_in_settings_without_a_schema() {
        let listeners = json!([{}, { "tls": { "certificates": [{ "inlineString": "both" }] } }]);
        assert_eq!(
            found(&mesh_gateway::KIND, &json!({ "conf": { "listeners": listeners } })),
            ["conf.listeners[1].tls.certificates[0].inlineString: private both"]
        );
        let conf = json!({ "cert": { "inline_string": "c" }, "key": { "file": "/key.pem" }, "x": [{ "secret": "s" }] });
        let spec = json!({ "mtls": { "backends": [{ "name": "ca", "conf": conf }] } });
        assert_eq!(
            found(&mesh::KIND, &spec),
            [
                "mtls.backends[0].conf.cert.inline_string: public c",
                "mtls.backends[0].conf.key.file: file /key.pem",
                "mtls.backends[0].conf.x[0].secret: secret s",
            ]
        );
    }

    #[test]
    fn field_omits_list_indexes() {
        let source = |path: &str| FoundSource {
            path: path.to_owned(),
            pointer: String::new(),
            form: SourceForm::Legacy,
            named: SourceLocation::Secret(String::new()),
        };
        assert_eq!(source("a[0].b[12].secret").field(), "a[].b[].secret");
        assert_eq!(source("a[0].b[12].secret").field(), source("a[3].b[1].secret").field());
        assert_eq!(source("a.secret").field(), "a.secret");
    }

    #[test]
    fn private_keys_are_private_in_every_field() {
        let inline = Inline { text: String::new(), base64: false, private: false };
        assert!(inline.is_private(b"cert\n-----BEGIN EC PRIVATE KEY-----\n"));
        assert!(!inline.is_private(b"-----BEGIN CERTIFICATE-----\n"));
        assert!(Inline { private: true, ..inline }.is_private(b""));
    }

    #[test]
    fn debug_output_hides_inline_bytes() {
        let named = SourceLocation::Inline(Inline { text: "the key".to_owned(), base64: false, private: true });
        assert!(!format!("{named:?}").contains("the key"));
    }
}
