//! Labels of a Dataplane and the mTLS rollout of its mesh: a user's change that gives the proxy another SPIFFE ID is stored
//! together with the step that keeps the one before ([ADR 017](../../../../docs/adr/017-identities-move-by-acknowledgement.md)).

use std::sync::Arc;

use kodiak_identity::relabelled;
use kodiak_model::{
    Checked, Labels, ProxyKey, ResourceKey,
    kinds::dataplane::{Admission, Dataplane},
};
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;
use kodiak_store::{Expect, Snapshot, Write};
use kodiak_world::document::{self, ROLLOUT};
use serde_json::{Map, Value};

/// For a write by a user. `admission`: after it. The write comes before that of the Dataplane.
pub(crate) fn by_user(snapshot: &Snapshot, checked: &Checked, admission: Option<Admission>) -> Option<Write> {
    let key = ProxyKey::new(&checked.mesh, &checked.name);
    let Some(old) = snapshot.world().proxy(&key) else { return anew(snapshot, &key) };
    if *old.labels == checked.labels {
        return None;
    }
    let dataplane = checked.typed::<Dataplane>().expect("a Dataplane was checked");
    let labels = Arc::new(checked.labels.clone());
    let new = Proxy { labels, dataplane, admission: admission.map(Arc::new), ..(**old).clone() };
    let step = step(snapshot, &key.mesh)?;
    write(snapshot, &key.mesh, &relabelled(&step, old, &new)?)
}

/// For a Dataplane that is created, or that a proxy registers: labels of the one before are not its own.
pub(crate) fn anew(snapshot: &Snapshot, key: &ProxyKey) -> Option<Write> {
    write(snapshot, &key.mesh, &step(snapshot, &key.mesh)?.releasing(&key.name)?)
}

/// Labels from which the certificate of a proxy follows, or may follow, until its mesh has acknowledged a change of them. A
/// token must be valid for them too.
pub fn kept_labels(snapshot: &Snapshot, key: &ProxyKey) -> Vec<Arc<Labels>> {
    step(snapshot, &key.mesh).map(|step| step.kept_labels(&key.name).cloned().collect()).unwrap_or_default()
}

fn step(snapshot: &Snapshot, mesh: &str) -> Option<Rollout> {
    snapshot.world().get(&document::key(mesh, ROLLOUT))?.document()
}

/// What else the record has stays.
fn write(snapshot: &Snapshot, mesh: &str, step: &Rollout) -> Option<Write> {
    let key = document::key(mesh, ROLLOUT);
    let old = snapshot.get(&key)?;
    let mut record: Map<String, Value> = snapshot.world().get(&key)?.document()?;
    let fields = |step: &Rollout| serde_json::to_value(step).ok().and_then(|fields| fields.as_object().cloned());
    for field in fields(&self::step(snapshot, mesh)?)?.keys() {
        record.remove(field);
    }
    record.extend(fields(step)?);
    Some(Write::Put {
        key,
        spec: Value::Object(record).to_string().into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Mesh", mesh)),
        expect: Expect::Version(old.version),
    })
}
