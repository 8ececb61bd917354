//! Labels of a Dataplane and the mTLS rollout of its mesh: a user's change that gives the proxy another SPIFFE ID is stored
//! together with the step that keeps the one before ([ADR 017](../../../../docs/adr/017-identities-move-by-acknowledgement.md)).

use std::sync::Arc;

use kodiak_identity::relabelled;
use kodiak_model::{
    Checked, Labels, ProxyKey, ResourceKey,
    kinds::dataplane::{Admission, Dataplane},
};
use kodiak_rollout::{Rollout, RolloutRecord};
use kodiak_rules::Proxy;
use kodiak_store::{Snapshot, Write};
use kodiak_world::document::{self, ROLLOUT};

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
    write(snapshot, &key.mesh, |step| relabelled(step, old, &new))
}

/// For a Dataplane that is created, or that a proxy registers: labels of the one before are not its own.
pub(crate) fn anew(snapshot: &Snapshot, key: &ProxyKey) -> Option<Write> {
    write(snapshot, &key.mesh, |step| step.releasing(&key.name))
}

/// Labels from which the certificate of a proxy follows, or may follow, until its mesh has acknowledged a change of them. A
/// token must be valid for them too.
pub fn kept_labels(snapshot: &Snapshot, key: &ProxyKey) -> Vec<Arc<Labels>> {
    let record = record(snapshot, &key.mesh);
    record.map(|record| record.step.kept_labels(&key.name).cloned().collect()).unwrap_or_default()
}

fn record(snapshot: &Snapshot, mesh: &str) -> Option<RolloutRecord> {
    snapshot.world().get(&document::key(mesh, ROLLOUT))?.document()
}

/// Steps before it that proxies may be at stay.
fn write(snapshot: &Snapshot, mesh: &str, step: impl FnOnce(&Rollout) -> Option<Rollout>) -> Option<Write> {
    let key = document::key(mesh, ROLLOUT);
    let record = record(snapshot, mesh)?;
    let changed = RolloutRecord { step: step(&record.step)?, ..record };
    Some(Write::Put {
        expect: snapshot.expect(&key),
        key,
        spec: serde_json::to_string(&changed).expect("documents have text keys").into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Mesh", mesh)),
    })
}
