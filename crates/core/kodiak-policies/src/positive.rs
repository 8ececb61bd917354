//! Validation of positive numbers, with Kuma's two error texts.

use kodiak_model::{FieldPath, GoDuration, Problems};

pub(crate) fn check_count(count: Option<u32>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(count != Some(0), at, "must be greater than 0");
}

pub(crate) fn check_signed(count: Option<i32>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(count.is_none_or(|count| count > 0), at, "must be greater than zero when defined");
}

pub(crate) fn check_duration(duration: Option<GoDuration>, at: &FieldPath<'_>, problems: &mut Problems) {
    let positive = duration.is_none_or(|duration| duration > GoDuration::ZERO);
    problems.require(positive, at, "must be greater than zero when defined");
}
