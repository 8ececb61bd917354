//! Fault injection for tests.

use std::{fmt, sync::Arc};

use kodiak_engine::EngineChange;
use tokio_util::sync::CancellationToken;

/// Called with a change; may panic.
pub type EngineFault = Arc<dyn Fn(&EngineChange) + Send + Sync>;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Faults {
    /// Called with every change right before the engine applies it.
    pub engine: Option<EngineFault>,
    /// Task that panics when the token is cancelled.
    pub task: Option<(&'static str, CancellationToken)>,
}

impl Faults {
    pub(crate) fn at_engine(&self, changes: &[EngineChange]) {
        if let Some(fault) = &self.engine {
            for change in changes {
                fault(change);
            }
        }
    }

    /// Never completes; panics when the fault of `task` is triggered.
    pub(crate) async fn at_task(self, name: &'static str) {
        match self.task {
            Some((faulty, now)) if faulty == name => {
                now.cancelled().await;
                panic!("injected by a test");
            }
            _ => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}
