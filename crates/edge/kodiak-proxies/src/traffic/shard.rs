//! Traffic of some clients of a mesh, as one record per control plane.

use kodiak_traffic::{ClientId, Recorded};

use super::SHARDS;

/// Traffic that this control plane has observed since it started, or since its record was folded.
#[derive(Debug, Default)]
pub(super) struct Shard {
    total: Recorded,
    /// Observations that no write has contained yet, not even one that may have failed.
    since_attempt: Recorded,
    was_attempted: bool,
    is_dirty: bool,
}

/// A write that was begun.
pub(super) struct Attempt {
    pub(super) total: Recorded,
    new: Recorded,
}

/// Number of the shard of a client.
pub(super) fn of(client: &ClientId) -> usize {
    let hash = client
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    usize::try_from(hash % SHARDS as u64).unwrap_or(0)
}

impl Shard {
    pub(super) fn total(&self) -> &Recorded {
        &self.total
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(super) fn observe(&mut self, observed: &Recorded, limit: usize) {
        self.total.merge_up_to(observed, limit);
        self.since_attempt.merge_up_to(observed, limit);
        self.is_dirty = true;
    }

    /// Traffic that is not in the fold. `is_folded`: the record does not exist, and the fold contains it.
    pub(super) fn unfolded(&self, is_folded: bool) -> &Recorded {
        if is_folded && self.was_attempted { &self.since_attempt } else { &self.total }
    }

    pub(super) fn attempt(&mut self, is_folded: bool) -> Attempt {
        if is_folded && self.was_attempted {
            self.total = self.since_attempt.clone();
        }
        self.was_attempted = true;
        self.is_dirty = false;
        Attempt { total: self.total.clone(), new: std::mem::take(&mut self.since_attempt) }
    }

    /// The store has refused the write: nothing of it is stored.
    pub(super) fn refused(&mut self, attempt: &Attempt) {
        self.since_attempt.merge(&attempt.new);
        self.is_dirty = true;
    }

    /// It is unknown whether the write happened. The next one writes the same counts and more.
    pub(super) fn unknown(&mut self) {
        self.is_dirty = true;
    }
}
