//! What is about changes and who is told of them.

/// [`super::EQUAL_IS_SILENT`]: nobody must be told of what leaves every configuration as it is.
pub(crate) fn must_be_seen(recorded: bool, makes_a_difference: bool) -> bool {
    recorded && makes_a_difference
}
