//! Scheduling of cache clean-ups.

/// Smaller caches are not cleaned up.
const FROM: usize = 1024;

/// A cache is cleaned up when it is twice as large as after the last time, so that the amortized cost per entry is low.
#[derive(Default)]
pub(crate) struct Sweep {
    at: usize,
}

impl Sweep {
    pub(crate) fn is_due(&self, length: usize) -> bool {
        length >= self.at.max(FROM)
    }

    pub(crate) fn done(&mut self, left: usize) {
        self.at = 2 * left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_is_due_when_the_cache_doubled() {
        let mut sweep = Sweep::default();
        assert!(!sweep.is_due(FROM - 1) && sweep.is_due(FROM));
        sweep.done(FROM);
        assert!(!sweep.is_due(2 * FROM - 1) && sweep.is_due(2 * FROM));
        sweep.done(1);
        assert!(!sweep.is_due(FROM - 1) && sweep.is_due(FROM));
    }
}
