//! Supervision of tasks: when one ends early, the process ends with an error that names it.

use std::collections::HashMap;

use anyhow::Context as _;
use kodiak_reconcilers::quarantine;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::faults::Faults;

type Ended = (&'static str, anyhow::Result<()>);
type Joined = Result<(Id, anyhow::Result<()>), JoinError>;

pub(crate) struct Tasks {
    set: JoinSet<anyhow::Result<()>>,
    names: HashMap<Id, &'static str>,
    drain: CancellationToken,
    faults: Faults,
}

impl Tasks {
    pub(crate) fn new(drain: CancellationToken, faults: Faults) -> Self {
        Self { set: JoinSet::new(), names: HashMap::new(), drain, faults }
    }

    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let span = tracing::info_span!("task", name);
        let fault = self.faults.clone().at_task(name);
        let task = async move {
            tokio::select! {
                ended = task => ended,
                () = fault => Ok(()),
            }
        };
        let id = self.set.spawn(task.instrument(span)).id();
        self.names.insert(id, name);
    }

    /// Waits until a task ends before the drain, and returns the reason.
    pub(crate) async fn first_end(&mut self) -> anyhow::Error {
        match self.set.join_next_with_id().await {
            Some(joined) => match self.named(joined) {
                (name, Ok(())) => anyhow::anyhow!("task {name} ended by itself"),
                (name, Err(error)) => error.context(format!("task {name} failed")),
            },
            None => anyhow::anyhow!("there are no tasks"),
        }
    }

    /// Drains all tasks and waits for them. Returns the first failure.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.drain.cancel();
        let mut outcome = Ok(());
        while let Some(joined) = self.set.join_next_with_id().await {
            let (name, ended) = self.named(joined);
            outcome = outcome.and(ended.with_context(|| format!("task {name} failed")));
        }
        outcome
    }

    /// Drains all tasks without waiting.
    pub(crate) fn drain(&self) {
        self.drain.cancel();
    }

    /// Result of a task; a panic is a failure.
    fn named(&mut self, joined: Joined) -> Ended {
        let (id, ended) = match joined {
            Ok((id, ended)) => (id, ended),
            Err(error) => {
                let id = error.id();
                let failure = match error.try_into_panic() {
                    Ok(payload) => anyhow::anyhow!("panicked: {}", quarantine::message(&*payload)),
                    Err(error) => error.into(),
                };
                (id, Err(failure))
            }
        };
        (self.names.remove(&id).unwrap_or("without a name"), ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn error_names_the_task_that_ended_early() {
        let mut tasks = Tasks::new(CancellationToken::new(), Faults::default());
        tasks.spawn("brief", async { Ok(()) });
        assert_eq!(tasks.first_end().await.to_string(), "task brief ended by itself");
        tasks.spawn("broken", async { anyhow::bail!("no disk") });
        assert_eq!(format!("{:#}", tasks.first_end().await), "task broken failed: no disk");
        tasks.spawn("careless", async { panic!("oh") });
        assert_eq!(format!("{:#}", tasks.first_end().await), "task careless failed: panicked: oh");
    }

    #[tokio::test]
    async fn shutdown_drains_and_waits_for_all_tasks() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone(), Faults::default());
        tasks.spawn("patient", async move {
            drain.cancelled().await;
            Ok(())
        });
        assert!(tasks.end().await.is_ok());
    }
}
