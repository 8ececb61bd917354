//! Validation of a Secret.

use super::Secret;
use crate::Problems;

pub(super) fn check(spec: &Secret, problems: &mut Problems) {
    spec.data.check(problems);
}
