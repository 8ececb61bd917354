//! Validation of a GlobalSecret.

use super::GlobalSecret;
use crate::Problems;

pub(super) fn check(spec: &GlobalSecret, problems: &mut Problems) {
    spec.data.check(problems);
}
