//! What is counted.

use std::ops::Sub;

/// What was done since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) looked_at: u64,
    pub(super) spec_writes: u64,
    pub(super) status_writes: u64,
    pub(super) encoded: u64,
    pub(super) woken: u64,
}

impl Work {
    /// The larger one of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            looked_at: self.looked_at.max(other.looked_at),
            spec_writes: self.spec_writes.max(other.spec_writes),
            status_writes: self.status_writes.max(other.status_writes),
            encoded: self.encoded.max(other.encoded),
            woken: self.woken.max(other.woken),
        }
    }
}

impl Sub for Work {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            looked_at: self.looked_at - before.looked_at,
            spec_writes: self.spec_writes - before.spec_writes,
            status_writes: self.status_writes - before.status_writes,
            encoded: self.encoded - before.encoded,
            woken: self.woken - before.woken,
        }
    }
}
