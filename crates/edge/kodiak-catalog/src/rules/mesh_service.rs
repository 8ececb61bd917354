//! MeshService: fields of the control plane stay when a write omits them.

use std::sync::Arc;

use kodiak_model::{Checked, kinds::mesh_service::MeshService};
use kodiak_store::Snapshot;
use serde_json::Value;

use crate::put::key_of;

/// The control plane's fields that a document omits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut {
    state: bool,
    identities: bool,
}

impl LeftOut {
    pub(crate) fn of(spec: Option<&Value>) -> Self {
        let missing = |field: &str| spec.and_then(|spec| spec.get(field)).is_none_or(Value::is_null);
        Self { state: missing("state"), identities: missing("identities") }
    }
}

pub(super) fn before_put(snapshot: &Snapshot, checked: &mut Checked, left_out: LeftOut) {
    let mut service = checked.typed::<MeshService>().map(Arc::unwrap_or_clone).expect("a MeshService was checked");
    if let Some(old) = snapshot.world().get(&key_of(checked)).and_then(|old| old.spec::<MeshService>()) {
        if left_out.state {
            service.state = old.state.clone();
        }
        if left_out.identities {
            service.identities.clone_from(&old.identities);
        }
    }
    checked.replace(service);
    // It is no default but an observation of the control plane, so it is in the stored text from the start.
    checked.write_field("state");
}
