//! Validation of a Workload.

use crate::{CheckCtx, Problems, names};

const NAME_MAX: usize = 253;

pub(super) fn check(ctx: &CheckCtx<'_>, problems: &mut Problems) {
    names::check_length(ctx.display_name(), NAME_MAX, problems);
}
