//! Objects with a `type`, and the field that the type asks for.

use kodiak_model::{FieldPath, Problems};

/// The field, or a problem when it is missing.
pub(crate) fn member<'a, T>(field: Option<&'a T>, at: &FieldPath<'_>, problems: &mut Problems) -> Option<&'a T> {
    problems.require(field.is_some(), at, "must be defined");
    field
}
