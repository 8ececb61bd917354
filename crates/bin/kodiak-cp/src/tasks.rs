//! The tasks of the process. If one that it needs ends early, the process ends, with its name.

use anyhow::Context as _;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

type Ended = (&'static str, anyhow::Result<()>);
type Joined = Result<Ended, JoinError>;

pub(crate) struct Tasks {
    set: JoinSet<Ended>,
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

    /// Waits until one ends, which none should before the drain, and says why it did.
    pub(crate) async fn first_end(&mut self) -> anyhow::Error {
        match self.set.join_next().await {
            Some(joined) => match name_and_result(joined) {
                Ok((name, Ok(()))) => anyhow::anyhow!("task {name} ended by itself"),
                Ok((name, Err(error))) => error.context(format!("task {name} failed")),
                Err(error) => error,
            },
            None => anyhow::anyhow!("there are no tasks"),
        }
    }

    /// Tells all to end, and waits until they have. The first failure is the outcome.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.drain.cancel();
        let mut outcome = Ok(());
        while let Some(joined) = self.set.join_next().await {
            let ended = name_and_result(joined)
                .and_then(|(name, result)| result.with_context(|| format!("task {name} failed")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

/// A panic in a task is its failure.
fn name_and_result(joined: Joined) -> anyhow::Result<Ended> {
    joined.context("a task panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_is_named() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("brief", async { Ok(()) });
        assert_eq!(tasks.first_end().await.to_string(), "task brief ended by itself");
        tasks.spawn("broken", async { anyhow::bail!("no disk") });
        assert_eq!(format!("{:#}", tasks.first_end().await), "task broken failed: no disk");
        tasks.spawn("careless", async { panic!("oh") });
        assert!(format!("{:#}", tasks.first_end().await).starts_with("a task panicked"));
    }

    #[tokio::test]
    async fn all_are_told_to_end_and_waited_for() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone());
        tasks.spawn("patient", async move {
            drain.cancelled().await;
            Ok(())
        });
        assert!(tasks.end().await.is_ok());
    }
}
