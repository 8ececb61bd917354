//! Decoding of records into typed values.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use kodiak_kinds::kinds;
use kodiak_model::{
    Erased, Kind,
    kinds::dataplane::{self, Admission, DataplaneStatus},
    policy::Body,
    re2,
};
use kodiak_rules::{Policy, Proxy};
use serde_json::Value;

use crate::{
    Destination, Fallback, Resource, Stored, Unreadable, destination, permission,
    resource::{Content, Form, Text},
};

/// `before` is the previous resource of the key: its last readable version replaces an unreadable one.
pub(crate) fn decode(stored: Stored<'_>, before: Option<&Resource>) -> Resource {
    let kind = kinds().by_name(&stored.key.kind);
    let mut resource = Resource {
        key: stored.key.clone(),
        kind,
        labels: stored.labels.clone(),
        created: stored.created,
        version: stored.version,
        status_version: stored.status.map(|_| stored.status_version),
        revision: stored.revision,
        content: None,
        status: None,
        unreadable: None,
        invalid_regexes: Vec::new(),
        text: Text::of(stored),
    };
    let Some(kind) = kind else {
        resource.content = document(stored);
        return resource;
    };
    resource.status = status(kind, stored);
    match guarded(|| spec(kind, stored, &resource)) {
        Ok((content, invalid_regexes)) => {
            resource.content = Some(content);
            resource.invalid_regexes = invalid_regexes;
        }
        Err(error) => {
            let (content, fallback) = stand_in(kind, stored, before);
            resource.content = content;
            resource.unreadable = Some(Unreadable { error, fallback });
        }
    }
    resource
}

/// Records of the control plane itself have no kind.
fn document(stored: Stored<'_>) -> Option<Content> {
    let document: Value = serde_json::from_str(stored.spec).ok()?;
    Some(Content { version: stored.version, spec: Some(Erased::new(document)), form: Form::Plain })
}

/// A spec that panics its decoder is unreadable.
fn guarded<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err("decoding it panicked".to_owned()))
}

type Decoded = (Content, Vec<(String, String)>);

fn spec(kind: &'static Kind, stored: Stored<'_>, resource: &Resource) -> Result<Decoded, String> {
    let spec = (kind.language.decode)(stored.spec).map_err(|error| error.to_string())?;
    let mut invalid_regexes = Vec::new();
    let form = if let Some(body) = Body::stored(kind, stored.spec).map_err(|error| error.to_string())? {
        // Most policies have none, and need not be searched.
        if stored.spec.contains("RegularExpression") {
            let value: Value = serde_json::from_str(stored.spec).map_err(|error| error.to_string())?;
            invalid_regexes = re2::invalid_in(&value);
        }
        Form::Policy(policy(kind, stored, body))
    } else if kind.name == dataplane::KIND.name {
        let dataplane = spec.get().ok_or("not a Dataplane")?;
        Form::Proxy(Arc::new(Proxy {
            mesh: stored.key.mesh.clone(),
            name: stored.key.name.clone(),
            labels: stored.labels.clone(),
            dataplane,
            admission: admission(stored).map(Arc::new),
        }))
    } else if let Some((_, kind)) = destination::KINDS.iter().find(|(known, _)| known.name == kind.name) {
        Form::Destination(Arc::new(Destination::of(*kind, &spec, resource).ok_or("not a destination")?))
    } else {
        Form::Plain
    };
    Ok((Content { version: stored.version, spec: Some(spec), form }, invalid_regexes))
}

/// The rule for unreadable specs.
fn stand_in(kind: &'static Kind, stored: Stored<'_>, before: Option<&Resource>) -> (Option<Content>, Fallback) {
    if let Some(last) = before.and_then(Resource::readable) {
        return (Some(last.clone()), Fallback::LastReadable { version: last.version });
    }
    if !permission::is_permission(kind.name) {
        return (None, Fallback::LeftOut);
    }
    let denying = policy(kind, stored, permission::denying_like(stored.spec));
    (Some(Content { version: stored.version, spec: None, form: Form::Policy(denying) }), Fallback::DenyAll)
}

fn policy(kind: &'static Kind, stored: Stored<'_>, body: Body) -> Arc<Policy> {
    let (mesh, name) = (stored.key.mesh.clone(), stored.key.name.clone());
    Arc::new(Policy { kind, mesh, name, labels: stored.labels.clone(), body })
}

fn status(kind: &Kind, stored: Stored<'_>) -> Option<Erased> {
    let text = stored.status?;
    if kind.name == dataplane::KIND.name {
        return serde_json::from_str::<DataplaneStatus>(text).ok().map(Erased::new);
    }
    (kind.language.decode_status)(text).ok()
}

/// Claims that the proxy's token binds, if the proxy registered its Dataplane. An unreadable status binds nothing.
fn admission(stored: Stored<'_>) -> Option<Admission> {
    match serde_json::from_str::<DataplaneStatus>(stored.status?) {
        Ok(status) => status.admission,
        Err(_) => Some(Admission::unknown()),
    }
}
