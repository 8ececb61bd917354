//! Percentages: a whole number, or a decimal number in a string.

use kodiak_model::{FieldPath, IntOrString, Problems};

/// A required percentage.
pub(crate) fn check(value: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(value.is_some(), at, "must be defined");
    check_optional(value, at, problems);
}

/// An optional percentage.
pub(crate) fn check_optional(value: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(value) = value else { return };
    match value.decimal() {
        None => problems.add(at, "string must be a valid number"),
        Some(number) => {
            problems.require((0.0..=100.0).contains(&number), at, "must be in inclusive range [0.0, 100.0]");
        }
    }
}
