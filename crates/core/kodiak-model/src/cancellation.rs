//! Cancellation of long computations.
//!
//! Whoever starts a computation keeps a clone, and cancels it when nobody waits for the result any more. The loops of a
//! computation check it: it has no clock, so that the same inputs give the same result or none.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Cheap to clone; all clones are cancelled together.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// The computation was cancelled: it has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the computation was cancelled")
    }
}

impl std::error::Error for Cancelled {}

impl Cancellation {
    /// For computations that run to their end: in commands and tests.
    pub fn never() -> Self {
        Self::default()
    }

    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once it is cancelled. Cheap enough for every turn of a loop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.0.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_cancelled_together() {
        let (one, other) = (Cancellation::never(), Cancellation::never());
        let clone = one.clone();
        assert_eq!(one.check(), Ok(()));
        clone.cancel();
        assert_eq!((one.check(), other.check()), (Err(Cancelled), Ok(())));
    }
}
