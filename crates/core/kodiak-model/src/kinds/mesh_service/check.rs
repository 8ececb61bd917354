//! Validation of a MeshService. Ports are not validated: the status reports ports without an endpoint.

use super::{MeshService, Selector};
use crate::{CheckCtx, FieldPath, Problems, names};

pub(super) fn check(spec: &MeshService, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    names::check_length(ctx.display_name(), names::SERVICE_MAX, problems);
    let at = FieldPath::SPEC;
    let MeshService { state, selector, ports: _, identities } = spec;
    state.check(&at, "state", problems);
    let one = "must specify only one of: dataplaneTags, dataplaneRef, or dataplaneLabels";
    problems.require(selector_count(selector) <= 1, &at.field("selector"), one);
    let at = at.field("identities");
    for (n, identity) in identities.iter().flatten().enumerate() {
        if let Some(identity_type) = &identity.identity_type {
            identity_type.check(&at.index(n), "type", problems);
        }
    }
}

fn selector_count(selector: &Selector) -> usize {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
    let ways = [dataplane_tags.is_some(), dataplane_ref.is_some(), dataplane_labels.is_some()];
    ways.into_iter().filter(|written| *written).count()
}
