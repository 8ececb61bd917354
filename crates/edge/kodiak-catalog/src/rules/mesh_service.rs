//! MeshService: fields of the control plane stay when a write omits them.

use kodiak_model::{Checked, kinds::mesh_service::MeshService, language};
use kodiak_store::Record;
use serde_json::Value;

use crate::{Refusal, spec_of};

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

pub(super) fn before_put(checked: &mut Checked, left_out: LeftOut, old: Option<&Record>) -> Result<(), Refusal> {
    let Some(old) = old.and_then(spec_of::<MeshService>) else { return Ok(()) };
    let mut service: MeshService = language::decode(&checked.spec).map_err(Refusal::make)?;
    if left_out.state {
        service.state = old.state;
    }
    if left_out.identities {
        service.identities = old.identities;
    }
    checked.spec = language::to_json(&service);
    Ok(())
}
