//! The tasks of the process. If one that it needs ends early, the process ends, with its name.

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub(crate) struct Tasks {
    set: JoinSet<(&'static str, anyhow::Result<()>)>,
    drain: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(drain: CancellationToken) -> Self {
        Self { set: JoinSet::new(), drain }
    }

    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let span = tracing::info_span!("task", name);
        self.set.spawn(async move { (name, task.await) }.instrument(span));
    }

    /// Waits for all. The first that fails, or ends before the drain, ends the others.
    pub(crate) async fn join(mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        while let Some(joined) = self.set.join_next().await {
            let ended = joined.map_err(anyhow::Error::from).and_then(|(name, result)| {
                result.with_context(|| format!("task {name} failed"))?;
                anyhow::ensure!(self.drain.is_cancelled(), "task {name} ended by itself");
                Ok(())
            });
            if let Err(error) = ended {
                self.drain.cancel();
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }
}
