//! Deviations about change notifications.

/// [`super::EQUAL_IS_NOT_PUSHED`]: a change that leaves every configuration unchanged need not be pushed.
pub(crate) fn must_be_pushed(recorded: bool, makes_a_difference: bool) -> bool {
    recorded && makes_a_difference
}
