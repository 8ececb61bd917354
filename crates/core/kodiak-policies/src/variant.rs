//! Objects with a `type`, and the member that the type requires.

use kodiak_model::{FieldPath, Problems};

/// Returns the member, or reports that it is missing.
pub(crate) fn member<'a, T>(field: Option<&'a T>, at: &FieldPath<'_>, problems: &mut Problems) -> Option<&'a T> {
    problems.require(field.is_some(), at, "must be defined");
    field
}
