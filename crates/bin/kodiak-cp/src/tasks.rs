//! The tasks of the process. If one that it needs ends early, the process ends, with its name.

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

    /// Waits until one ends, which none should before the drain, and says why it did.
    pub(crate) async fn first_end(&mut self) -> anyhow::Error {
        match self.set.join_next_with_id().await {
            Some(joined) => match self.named(joined) {
                (name, Ok(())) => anyhow::anyhow!("task {name} ended by itself"),
                (name, Err(error)) => error.context(format!("task {name} failed")),
            },
            None => anyhow::anyhow!("there are no tasks"),
        }
    }

    /// Tells all to end, and waits until they have. The first failure is the outcome.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.drain.cancel();
        let mut outcome = Ok(());
        while let Some(joined) = self.set.join_next_with_id().await {
            let (name, ended) = self.named(joined);
            outcome = outcome.and(ended.with_context(|| format!("task {name} failed")));
        }
        outcome
    }

    /// Tells all to end, and does not wait.
    pub(crate) fn drain(&self) {
        self.drain.cancel();
    }

    /// A panic in a task is its failure.
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
    async fn a_task_that_ends_early_is_named() {
        let mut tasks = Tasks::new(CancellationToken::new(), Faults::default());
        tasks.spawn("brief", async { Ok(()) });
        assert_eq!(tasks.first_end().await.to_string(), "task brief ended by itself");
        tasks.spawn("broken", async { anyhow::bail!("no disk") });
        assert_eq!(format!("{:#}", tasks.first_end().await), "task broken failed: no disk");
        tasks.spawn("careless", async { panic!("oh") });
        assert_eq!(format!("{:#}", tasks.first_end().await), "task careless failed: panicked: oh");
    }

    #[tokio::test]
    async fn all_are_told_to_end_and_waited_for() {
        let drain = CancellationToken::new();
        let mut tasks = Tasks::new(drain.clone(), Faults::default());
        tasks.spawn("patient", async move {
            drain.cancelled().await;
            Ok(())
        });
        assert!(tasks.end().await.is_ok());
    }
}
