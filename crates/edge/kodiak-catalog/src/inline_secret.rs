//! Private keys in resources. Resources are not secret, so before they are stored the keys are moved to Secrets that
//! they own, and replaced by references. Secrets are encrypted, and visible to administrators only.
//!
//! A read returns the reference; writing it back keeps the key. A new inline key replaces the Secret of the old one,
//! and the Secrets are deleted with the resource. Backends of a Mesh have their own rule (`rules/mesh/inline_key.rs`).

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use kodiak_crypto::fingerprint;
use kodiak_kinds::kinds;
use kodiak_model::{
    Checked, Labels, Problem, Problems, ResourceKey, Scope, labels,
    source_walk::{FoundSource, SourceForm, SourceLocation, has_sources, sources},
};
use kodiak_store::{Record, Snapshot, Transaction, Write};
use serde_json::{Value, json};

use crate::{Catalog, Refusal, Stage, put};

const SECRET: &str = "Secret";
/// Length that is enough to distinguish the keys of one resource.
const FINGERPRINT: usize = 16;

/// Replaces inline keys by references. Returns the writes of the Secrets.
pub(crate) fn move_to_secrets(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &mut Checked,
    old: Option<&Record>,
) -> Result<Vec<Write>, Refusal> {
    if checked.kind.scope != Scope::Mesh || !has_sources(checked.kind) {
        return Ok(Vec::new());
    }
    let mut spec: Value = serde_json::from_str(checked.spec()).map_err(Refusal::make)?;
    let mut problems = Problems::default();
    let mut writes = Vec::new();
    let mut changed = false;
    for (pointer, members) in by_source(sources(checked.kind, &spec)) {
        let Some(bytes) = private_bytes(&members, &mut problems) else { continue };
        let Some(source) = spec.pointer_mut(&pointer) else { continue };
        let (form, path) = (members[0].form, &members[0].path);
        changed = true;
        if is_ignored(source, form, &members) {
            drop_inline(source);
            continue;
        }
        let name = name_of(checked, &bytes);
        *source = form.reference(&name);
        match secret(catalog, snapshot, checked, &name, &bytes) {
            Ok(write) => writes.extend(write),
            Err(message) => problems.push(Problem { path: path.clone(), message }),
        }
    }
    if !problems.is_empty() {
        return Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems));
    }
    if changed {
        checked.replace_json(&spec).map_err(Refusal::make)?;
    }
    writes.extend(old.into_iter().flat_map(|_| unused(snapshot, checked, &spec)));
    Ok(writes)
}

impl Catalog {
    /// Moves the inline keys of resources that were stored before keys were moved. Idempotent.
    pub(crate) async fn move_stored_inline_keys(&self) -> Result<Vec<String>, Refusal> {
        let mut moved = Vec::new();
        for kind in kinds().iter().filter(|kind| kind.scope == Scope::Mesh && has_sources(kind)) {
            let snapshot = self.store().snapshot();
            for old in snapshot.list(kind.name) {
                // One that cannot be read stays as it is, and is sent to nobody.
                let checked = Checked::stored(kind, &old.key, (*old.labels).clone(), &old.spec);
                let Ok(mut checked) = checked else { continue };
                let secrets = match move_to_secrets(self, &snapshot, &mut checked, Some(old)) {
                    Ok(secrets) => secrets,
                    Err(error) => {
                        tracing::warn!(resource = %old.key, %error, "failed to move an inline private key to a Secret");
                        continue;
                    }
                };
                if *checked.spec() == *old.spec {
                    continue;
                }
                let mut writes = vec![put::write(&checked, &snapshot)];
                writes.extend(secrets);
                match self.commit(Transaction(writes), false).await {
                    // A concurrent write moved it too.
                    Err(Refusal::Conflict(_)) => continue,
                    other => other?,
                }
                tracing::info!(resource = %old.key, "moved inline private keys to Secrets, rotate them if others could read the store");
                moved.push(old.key.to_string());
            }
        }
        Ok(moved)
    }
}

/// Members of each data source that has a schema.
fn by_source(found: Vec<FoundSource>) -> BTreeMap<String, Vec<FoundSource>> {
    let mut sources: BTreeMap<String, Vec<FoundSource>> = BTreeMap::new();
    for source in found.into_iter().filter(|source| source.form != SourceForm::Untyped) {
        sources.entry(source.pointer.clone()).or_default().push(source);
    }
    sources
}

/// Inline bytes of a data source, if only administrators may read them.
fn private_bytes(members: &[FoundSource], problems: &mut Problems) -> Option<Vec<u8>> {
    let mut private = None;
    for member in members {
        let SourceLocation::Inline(inline) = &member.named else { continue };
        let bytes = if inline.base64 {
            let one_line: String = inline.text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let Ok(bytes) = BASE64_STANDARD.decode(one_line) else {
                problems.push(Problem { path: member.path.clone(), message: "must be base64".to_owned() });
                continue;
            };
            bytes
        } else {
            inline.text.clone().into_bytes()
        };
        // The first one takes effect.
        if inline.is_private(&bytes) && private.is_none() {
            private = Some(bytes);
        }
    }
    private
}

/// Whether the inline bytes are ignored, because another member takes precedence.
fn is_ignored(source: &Value, form: SourceForm, members: &[FoundSource]) -> bool {
    match form {
        SourceForm::Secure => source.get("type").and_then(Value::as_str) != Some("InsecureInline"),
        SourceForm::Legacy | SourceForm::Untyped => {
            members.iter().any(|member| !matches!(member.named, SourceLocation::Inline(_)))
        }
    }
}

fn drop_inline(source: &mut Value) {
    if let Value::Object(members) = source {
        members.retain(|name, _| !["inline", "inlineString", "insecureInline"].contains(&name.as_str()));
    }
}

/// Name prefix of all Secrets of a resource.
fn prefix(checked: &Checked) -> String {
    format!("{}.{}.inline-", checked.kind.name.to_ascii_lowercase(), checked.name)
}

/// The name contains a fingerprint of the key: list indexes can change, and keys must not be confused.
fn name_of(checked: &Checked, bytes: &[u8]) -> String {
    let (kind, name) = (checked.kind.name, &checked.name);
    let text = [kind.as_bytes(), b"/", name.as_bytes(), b"/", bytes].concat();
    format!("{}{}", prefix(checked), &fingerprint(&text)[..FINGERPRINT])
}

/// The write of a Secret, unless it already has these bytes.
fn secret(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &Checked,
    name: &str,
    bytes: &[u8],
) -> Result<Option<Write>, String> {
    if let Some(fault) = kodiak_model::names::fault(name) {
        return Err(format!(
            "the inline key would be stored in the Secret {name:?}, which is not a valid name: {fault}"
        ));
    }
    let key = ResourceKey::in_mesh(SECRET, &checked.mesh, name);
    let owner = put::key_of(checked);
    let stored = snapshot.get(&key);
    if snapshot.world().secret(&key).is_some_and(|stored| stored == bytes) {
        return Ok(None);
    }
    if stored.is_some_and(|stored| stored.owner.as_ref() != Some(&owner)) {
        return Err(format!(
            "the inline key would be stored in the Secret {name:?}, which holds something else; delete it first"
        ));
    }
    let kind = kinds().by_name(SECRET).expect("secrets are in the table of kinds");
    Ok(Some(Write::Put {
        expect: snapshot.expect(&key),
        key,
        spec: json!({ "data": BASE64_STANDARD.encode(bytes) }).to_string().into(),
        labels: labels::compute(kind, &checked.mesh, &Labels::new(), &[], catalog.place()),
        owner: Some(owner),
    }))
}

/// Deletes the Secrets of the resource that it no longer references.
fn unused(snapshot: &Snapshot, checked: &Checked, spec: &Value) -> Vec<Write> {
    let referred: BTreeSet<String> = sources(checked.kind, spec)
        .into_iter()
        .filter_map(|source| match source.named {
            SourceLocation::Secret(name) => Some(name),
            _ => None,
        })
        .collect();
    let (owner, prefix) = (put::key_of(checked), prefix(checked));
    let left = snapshot.list_in(SECRET, &checked.mesh).filter(|record| {
        record.key.name.starts_with(&prefix)
            && record.owner.as_ref() == Some(&owner)
            && !referred.contains(&*record.key.name)
    });
    left.map(|record| Write::Delete { key: record.key.clone(), expect: snapshot.expect(&record.key) }).collect()
}
