//! Creates and replaces resources.

use std::sync::Arc;

use kodiak_model::{
    Checked, Draft, FieldPath, Kind, Problems, ProxyKey, ResourceKey, Scope, Shape, check,
    check::{Meta, ValidSpec},
    kinds::dataplane::{self, Admission, Dataplane, DataplaneStatus},
    labels,
};
use kodiak_store::{Snapshot, Transaction, Write};
use kodiak_world::Resource;
use serde_json::Value;

use crate::{
    Catalog, Refusal, Stage, Target, identity_ca, initial, inline_secret, owner_of,
    references::{self, Rights},
    relabel, require_mesh,
    rules::{self, LeftOut},
};

/// Maximum number of attempts after conflicts with concurrent writes.
pub(crate) const TRIES: usize = 5;

/// Result of a write, or of a planned one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    pub created: bool,
    /// False when the stored resource was equal.
    pub changed: bool,
    pub warnings: Vec<String>,
}

/// Author of a Dataplane. It is stored in the same transaction, so that claims of a proxy are never mistaken for those
/// of a user.
#[derive(Debug, Clone)]
pub enum Author {
    /// A user who may write Dataplanes.
    User,
    /// The proxy itself, with the claims of its token.
    Proxy(Admission),
}

impl Catalog {
    /// As [`put_with`](Self::put_with), for authors without any further right: proxies, and the control plane itself.
    pub async fn put(&self, target: Target<'_>, body: Value) -> Result<Put, Refusal> {
        self.put_with(target, body, Rights::default()).await
    }

    /// Creates the resource, or replaces its spec and labels. The last write wins; when another one comes in between,
    /// everything is decided again on what that one left.
    pub async fn put_with(&self, target: Target<'_>, body: Value, rights: Rights) -> Result<Put, Refusal> {
        self.put_as(target, body, rights, &Author::User).await
    }

    /// Like [`put`](Self::put), for a Dataplane whose author may be a proxy, decided on the snapshot `read`. Returns
    /// [`Refusal::Conflict`] when the resource has changed since: read again, and decide again.
    pub async fn put_on(
        &self,
        read: &Snapshot,
        target: Target<'_>,
        body: Value,
        author: &Author,
    ) -> Result<Put, Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        let (meta, spec, left_out) = self.read(target, body)?;
        self.try_put(read, meta.with(spec, self.place()), left_out, Rights::default(), author).await
    }

    async fn put_as(&self, target: Target<'_>, body: Value, rights: Rights, author: &Author) -> Result<Put, Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        let (meta, spec, left_out) = self.read(target, body)?;
        let checked = meta.with(spec, self.place());
        let mut tries = 1..TRIES;
        loop {
            let snapshot = self.store().snapshot();
            match self.try_put(&snapshot, checked.clone(), left_out, rights, author).await {
                Err(Refusal::Conflict(_)) if tries.next().is_some() => (),
                other => return other,
            }
        }
    }

    /// Validates the document: first its spec, then its name and labels.
    pub(crate) fn read(&self, target: Target<'_>, body: Value) -> Result<(Meta, ValidSpec, LeftOut), Refusal> {
        let draft = Draft::from_value(body, |_| Some(target.kind.shape))
            .map_err(|problems| malformed(target.kind, &problems))?;
        let meta = Meta {
            kind: target.kind,
            mesh: mesh_of(target.kind, &draft),
            name: draft.name.clone(),
            labels: draft.labels.clone(),
        };
        let written_kind = draft.kind.clone();
        let left_out = LeftOut::of(draft.spec.as_ref());
        let mut problems = Problems::default();
        if target.kind.shape == Shape::Plugin {
            envelope(target.kind, &draft, &mut problems);
        }
        let spec = check::spec(target.kind, draft, &mut problems);
        let (Some(spec), true) = (spec, problems.is_empty()) else {
            return Err(Refusal::invalid(Stage::Check, problems));
        };
        same_as_asked(target, &written_kind, &meta, &mut problems);
        meta.check(self.place(), &mut problems);
        if problems.is_empty() { Ok((meta, spec, left_out)) } else { Err(Refusal::invalid(Stage::Check, problems)) }
    }

    /// The writes of a document on top of `snapshot`, without the keys and policies that come with a new mesh, and without
    /// the rules that [`Planner::finish`](crate::Planner::finish) checks for all documents together.
    pub(crate) fn plan(
        &self,
        snapshot: &Snapshot,
        target: Target<'_>,
        body: Value,
        rights: Rights,
    ) -> Result<(Put, Transaction), Refusal> {
        require_mesh(snapshot, target.kind, target.mesh)?;
        let (meta, spec, left_out) = self.read(target, body)?;
        let (checked, secrets, put) = self.prepare(snapshot, meta.with(spec, self.place()), left_out, rights)?;
        let Authored { relabelled, status } = authored(&checked, snapshot, &Author::User);
        let mut writes: Vec<Write> = relabelled.into_iter().chain([write(&checked, snapshot)]).collect();
        writes.extend(secrets);
        writes.extend(status);
        Ok((put, Transaction(writes)))
    }

    async fn try_put(
        &self,
        snapshot: &Snapshot,
        checked: Checked,
        left_out: LeftOut,
        rights: Rights,
        author: &Author,
    ) -> Result<Put, Refusal> {
        let (put, transaction) = self.put_transaction(snapshot, checked, left_out, rights, author).await?;
        if !transaction.0.is_empty() {
            self.commit(transaction, matches!(author, Author::Proxy(_))).await?;
        }
        Ok(put)
    }

    /// The resource with all related writes, decided on `snapshot`. Empty when nothing changes.
    pub(crate) async fn put_transaction(
        &self,
        snapshot: &Snapshot,
        checked: Checked,
        left_out: LeftOut,
        rights: Rights,
        author: &Author,
    ) -> Result<(Put, Transaction), Refusal> {
        let (checked, secrets, put) = self.prepare(snapshot, checked, left_out, rights)?;
        rules::check_combinations(snapshot, &checked)?;
        let Authored { relabelled, status } = authored(&checked, snapshot, author);
        if !(put.changed || relabelled.is_some() || status.is_some()) {
            return Ok((put, Transaction::default()));
        }
        let companions = initial::companions(self, snapshot, &checked, put.created).await?;
        // Labels are kept before they change.
        let mut writes: Vec<Write> = relabelled.into_iter().chain([write(&checked, snapshot)]).collect();
        if checked.kind.name == dataplane::KIND.name && status.is_none() {
            // Nobody else has become its author.
            let key = key_of(&checked);
            writes.push(Write::RequireStatus { expect: snapshot.expect_status(&key), key });
        }
        writes.extend(secrets);
        writes.extend(companions);
        writes.extend(status);
        Ok((put, Transaction(writes)))
    }

    /// Validates the document against the stored resources, and returns the resource with all related writes.
    pub(crate) fn prepare(
        &self,
        snapshot: &Snapshot,
        mut checked: Checked,
        left_out: LeftOut,
        rights: Rights,
    ) -> Result<(Checked, Vec<Write>, Put), Refusal> {
        require_mesh(snapshot, checked.kind, &checked.mesh)?;
        let old = snapshot.get(&key_of(&checked));
        if let Some(old) = old {
            let mut problems = Problems::default();
            labels::check_unchanged(&old.labels, &checked.labels, &mut problems);
            if !problems.is_empty() {
                return Err(Refusal::invalid(Stage::Labels, problems));
            }
        }
        // Before any referenced data is read: a rejection must not reveal whether it exists.
        references::check(snapshot, &self.files, &checked, old, rights)?;
        let mut secrets = rules::before_put(self, snapshot, &mut checked, left_out, old)?;
        secrets.extend(inline_secret::move_to_secrets(self, snapshot, &mut checked, old)?);
        if rights.secrets {
            secrets.extend(identity_ca::adopt(snapshot, &checked));
        }
        let warnings = std::mem::take(&mut checked.warnings);
        let changed = secrets.iter().any(|write| !matches!(write, Write::Require { .. } | Write::RequireStatus { .. }))
            || old.is_none_or(|old| *old.spec != *checked.spec() || *old.labels != checked.labels);
        let put = Put { created: old.is_none(), changed, warnings };
        Ok((checked, secrets, put))
    }
}

pub(crate) fn key_of(checked: &Checked) -> ResourceKey {
    ResourceKey::in_mesh(checked.kind.name, &checked.mesh, &checked.name)
}

/// The write of the resource, decided on `snapshot`.
pub(crate) fn write(checked: &Checked, snapshot: &Snapshot) -> Write {
    let key = key_of(checked);
    Write::Put {
        expect: snapshot.expect(&key),
        key,
        spec: checked.spec().into(),
        labels: checked.labels.clone(),
        owner: owner(checked, snapshot),
    }
}

/// A Secret that the control plane keeps for a resource stays the resource's when a user replaces its content.
fn owner(checked: &Checked, snapshot: &Snapshot) -> Option<ResourceKey> {
    let old = snapshot.get(&key_of(checked));
    let kept = old.filter(|_| checked.kind.name == "Secret").and_then(|old| old.owner.clone());
    kept.or_else(|| owner_of(checked.kind, &checked.mesh, &checked.name))
}

/// Writes that come with that of a Dataplane.
#[derive(Default)]
struct Authored {
    /// Of the step of the mesh, when the SPIFFE ID of the proxy changes.
    relabelled: Option<Write>,
    /// Makes its status say what its author vouches for. Nothing where it says so already.
    status: Option<Write>,
}

fn authored(checked: &Checked, snapshot: &Snapshot, author: &Author) -> Authored {
    if checked.kind.name != dataplane::KIND.name {
        return Authored::default();
    }
    let key = key_of(checked);
    let known = snapshot.world().get(&key);
    let old = known.map(|old| old.status::<DataplaneStatus>());
    let old = old.map(Arc::unwrap_or_clone).unwrap_or_default();
    let (admission, held) = match author {
        Author::User => (after_write(&old, known, checked), old.held),
        // The Dataplane that the proxy provides says which inbounds serve.
        Author::Proxy(admission) => (Some(admission.clone()), Vec::new()),
    };
    let relabelled = match author {
        Author::User => relabel::by_user(snapshot, checked, admission.clone()),
        Author::Proxy(_) => relabel::anew(snapshot, &ProxyKey::new(&checked.mesh, &checked.name)),
    };
    let status = DataplaneStatus { admission, held, ..old };
    let status = serde_json::to_string(&status).expect("a status has text keys");
    let same = match snapshot.get(&key).and_then(|old| old.status.as_deref()) {
        Some(stored) => stored == status,
        None => status == "{}",
    };
    let status = (!same).then(|| Write::PutStatus { expect: snapshot.expect_status(&key), key, status: status.into() });
    Authored { relabelled, status }
}

/// Admission of a Dataplane that a proxy registered, after a user wrote it.
fn after_write(status: &DataplaneStatus, known: Option<&Arc<Resource>>, checked: &Checked) -> Option<Admission> {
    // Without a readable version nobody can say what the write changed.
    let Some(old) = known.and_then(|known| known.proxy()) else { return status.admission.clone() };
    let dataplane = checked.typed::<Dataplane>().expect("a Dataplane was checked");
    let admission = old.admission.as_deref()?;
    Some(admission.after_write((&old.labels, &old.dataplane), (&checked.labels, &dataplane)))
}

/// Plugin kinds default to the mesh `default`; legacy kinds must name their mesh.
fn mesh_of(kind: &Kind, draft: &Draft) -> String {
    match (kind.scope, kind.shape, &draft.mesh) {
        (Scope::Mesh, _, Some(mesh)) => mesh.clone(),
        (Scope::Mesh, Shape::Plugin, None) => "default".to_owned(),
        (Scope::Mesh, Shape::Legacy, None) | (Scope::Global, ..) => String::new(),
    }
}

/// Schema violations in the envelope of a plugin kind. These problems have no field.
fn envelope(kind: &Kind, draft: &Draft, problems: &mut Problems) {
    let at = FieldPath::ROOT;
    if draft.kind.is_empty() {
        problems.add(&at, "type in body is required");
    } else if draft.kind != kind.name {
        problems.add(&at, format!("type in body should be one of [{}]", kind.name));
    }
    problems.require(!draft.name.is_empty(), &at, "name in body is required");
}

fn same_as_asked(target: Target<'_>, written_kind: &str, meta: &Meta, problems: &mut Problems) {
    let same = |at: &FieldPath<'_>, asked: &str, written: &str, problems: &mut Problems| {
        if asked != written {
            problems.add(at, format!("{at} from the URL has to be the same as in body"));
        }
    };
    same(&FieldPath::NAME, target.name, &meta.name, problems);
    same(&FieldPath::TYPE, target.kind.name, written_kind, problems);
    same(&FieldPath::MESH, target.mesh, &meta.mesh, problems);
}

fn malformed(kind: &Kind, problems: &Problems) -> Refusal {
    let text: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
    Refusal::Malformed(format!("invalid {} object: {:?}", kind.name, text.join("; ")))
}
