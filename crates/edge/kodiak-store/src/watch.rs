//! Following the store from a revision on.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::{
    error::StoreError,
    history::{Position, Published},
    record::Change,
};

/// Gives every change after a revision, in order, and never skips one.
///
/// It reads from what the store publishes, so a slow watcher costs nothing and blocks nobody. One that falls too far
/// behind sees several changes of a key as the last of them, and may be told that a key is gone which it never saw.
///
/// When the back end comes back with another history, it gives the changes that lead there and goes on in that one.
/// Revisions grow within a history only.
pub struct Watch {
    published: Arc<ArcSwap<Published>>,
    wake: watch::Receiver<()>,
    position: Position,
}

impl Watch {
    pub(crate) fn new(
        published: Arc<ArcSwap<Published>>,
        wake: watch::Receiver<()>,
        after: u64,
    ) -> Result<Self, StoreError> {
        let position = published.load().position(after)?;
        Ok(Self { published, wake, position })
    }

    /// The revision of the last change given: where another watch would go on.
    pub fn revision(&self) -> u64 {
        self.position.seen
    }

    /// Waits for the next change. Can be dropped and called again without losing one.
    ///
    /// `Expired` is final: list again and watch from there. So is `Unavailable`: the store is closed, and everything
    /// before that has been given.
    pub async fn next(&mut self) -> Result<Change, StoreError> {
        loop {
            // Marked as seen before looking, so that what is published after the look wakes us.
            self.wake.borrow_and_update();
            if let Some(change) = self.try_next()? {
                return Ok(change);
            }
            self.wake.changed().await.map_err(|_| StoreError::closed())?;
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Result<Option<Change>, StoreError> {
        let Some((event, position)) = self.published.load().next(self.position)? else { return Ok(None) };
        self.position = position;
        Ok(Some(event.to_change()))
    }
}

/// Never the contents.
impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
