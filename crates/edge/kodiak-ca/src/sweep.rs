//! When to look through a cache for what nobody needs any more.

/// Fewer entries are not worth looking through.
const FROM: usize = 1024;

/// A cache is looked through when it is twice as large as it was after the last time, so that it costs little per entry.
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
    fn it_is_due_again_when_there_is_twice_as_much() {
        let mut sweep = Sweep::default();
        assert!(!sweep.is_due(FROM - 1) && sweep.is_due(FROM));
        sweep.done(FROM);
        assert!(!sweep.is_due(2 * FROM - 1) && sweep.is_due(2 * FROM));
        sweep.done(1);
        assert!(!sweep.is_due(FROM - 1) && sweep.is_due(FROM));
    }
}
