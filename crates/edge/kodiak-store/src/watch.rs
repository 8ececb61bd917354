//! Watches the store from a revision on.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::{
    error::StoreError,
    history::{Position, Published},
    record::StoreChange,
};

/// Returns every change after a revision, in order, without gaps.
///
/// It reads from the published state, so a slow watcher costs nothing and blocks nobody. A watcher that falls too far
/// behind gets only the last of several changes of a key, and may get the deletion of a key that it never saw.
///
/// When the back end comes back with another history, the watch returns the changes that lead to it and continues in
/// it. Revisions increase only within a history.
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

    /// Revision of the last change that was returned: where another watch can resume.
    pub fn revision(&self) -> u64 {
        self.position.seen
    }

    /// Waits for the next change. Cancel-safe.
    ///
    /// `Expired` is final: list again and watch from there. So is `Unavailable`: the store is closed, and all earlier
    /// changes were returned.
    pub async fn next(&mut self) -> Result<StoreChange, StoreError> {
        loop {
            // Marked as seen before reading, so that a later publication wakes the watch.
            self.wake.borrow_and_update();
            if let Some(change) = self.try_next()? {
                return Ok(change);
            }
            self.wake.changed().await.map_err(|_| StoreError::closed())?;
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Result<Option<StoreChange>, StoreError> {
        let published = self.published.load();
        let Some((event, position)) = published.next(self.position)? else { return Ok(None) };
        self.position = position;
        Ok(Some(event.to_change(&published.state)))
    }
}

/// Hides the contents.
impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
