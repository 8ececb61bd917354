//! Every field of every kind that references or holds a secret is recognised.
//!
//! The walk over data sources uses the schemas. Fields that it would miss are found here by their names: a new kind
//! with such a field fails until the field is a data source, or is listed below with the reason why it is not.

use kodiak_kinds::kinds;
use kodiak_model::{
    Access, Kind, Shape,
    schema::Node,
    source_walk::{SourceForm, SourceLocation, form, has_sources, sources},
};
use serde_json::{Value, json};

/// Name parts of fields with secrets.
const SUSPICIOUS: [&str; 9] =
    ["secret", "password", "passwd", "token", "credential", "privatekey", "clientkey", "apikey", "inline"];

/// Fields with such a name that neither reference nor hold a secret.
const HARMLESS: [&str; 1] = [
    // Whether there was a token, not the token.
    "ZoneInsight.subscriptions[].authTokenProvided",
];

/// Untyped fields of plugin kinds: they are for extensions, for log collectors, and patches for Envoy. In legacy kinds
/// the walk covers untyped fields.
const UNTYPED: [&str; 3] = [".extension.config", ".openTelemetry.body", ".jsonPatches[].value"];

struct Field {
    path: String,
    /// Inside a data source that the walk finds.
    found: bool,
    untyped: bool,
}

fn fields(node: &Node, path: &str, found: bool, all: &mut Vec<Field>) {
    match node {
        Node::List { items, .. } => fields(items, &format!("{path}[]"), found, all),
        Node::Map(values) => fields(values, &format!("{path}{{}}"), found, all),
        Node::Object(properties) => {
            let found = found || form(properties).is_some();
            for property in properties {
                let path = format!("{path}.{}", property.name);
                let itself = matches!(&property.node, Node::Object(members) if form(members).is_some());
                all.push(Field { path: path.clone(), found: found || itself, untyped: property.node == Node::Any });
                fields(&property.node, &path, found, all);
            }
        }
        Node::Any | Node::Boolean | Node::Number(_) | Node::Integer(_) | Node::Text(_) | Node::IntOrString => (),
    }
}

fn fields_of(kind: &Kind) -> Vec<Field> {
    let mut all = Vec::new();
    fields(kind.spec_node(), kind.name, false, &mut all);
    all
}

fn is_suspicious(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    SUSPICIOUS.iter().any(|part| name.contains(part))
}

#[test]
fn every_field_that_may_be_a_secret_is_a_data_source() {
    let mut missed = Vec::new();
    for kind in kinds().iter().filter(|kind| kind.access != Access::Admin) {
        for field in fields_of(kind) {
            let harmless = HARMLESS.contains(&field.path.as_str());
            if is_suspicious(&field.path) && !field.found && !harmless {
                missed.push(field.path);
            }
        }
    }
    assert!(missed.is_empty(), "not found as data sources: {missed:#?}");
}

#[test]
fn every_untyped_field_is_listed() {
    let mut missed = Vec::new();
    for kind in kinds().iter().filter(|kind| kind.shape == Shape::Plugin) {
        missed.extend(fields_of(kind).into_iter().filter(|field| field.untyped).map(|field| field.path));
    }
    missed.retain(|path| !UNTYPED.iter().any(|end| path.ends_with(end)));
    assert!(missed.is_empty(), "say why nothing here is read as a data source, or give it a schema: {missed:#?}");
}

/// A document with every data source of the kind, each with a different Secret.
fn filled(node: &Node, path: &str, names: &mut Vec<String>) -> Option<Value> {
    match node {
        Node::List { items, .. } => filled(items, path, names).map(|item| json!([item])),
        Node::Map(values) => filled(values, path, names).map(|value| json!({ "any": value })),
        Node::Object(properties) => {
            if let Some(form) = form(properties) {
                names.push(path.to_owned());
                return Some(match form {
                    SourceForm::Secure => json!({ "secretRef": { "name": path } }),
                    SourceForm::Legacy | SourceForm::Untyped => json!({ "secret": path }),
                });
            }
            let fields = properties.iter().filter_map(|property| {
                let value = filled(&property.node, &format!("{path}.{}", property.name), names)?;
                Some((property.name.clone(), value))
            });
            let fields: serde_json::Map<_, _> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        _ => None,
    }
}

#[test]
fn walk_finds_every_data_source_of_every_kind() {
    let mut with_sources = Vec::new();
    for kind in kinds().iter() {
        let mut names = Vec::new();
        let Some(document) = filled(kind.spec_node(), kind.name, &mut names) else { continue };
        assert!(has_sources(kind), "{}", kind.name);
        let found: Vec<String> = sources(kind, &document)
            .into_iter()
            .map(|source| match source.named {
                SourceLocation::Secret(name) => name,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, names, "{}", kind.name);
        with_sources.push(kind.name);
    }
    assert_eq!(with_sources, ["MeshExternalService", "MeshGateway", "MeshIdentity"]);
}
