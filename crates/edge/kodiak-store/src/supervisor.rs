//! Closes the store when one of its tasks panics, so that it is never half alive.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Watches the tasks of one store.
#[derive(Clone)]
pub(crate) struct Supervisor {
    /// The first task that panicked.
    failed: watch::Sender<Option<&'static str>>,
    closing: CancellationToken,
}

impl Supervisor {
    pub(crate) fn new(closing: CancellationToken) -> Self {
        Self { failed: watch::Sender::new(None), closing }
    }

    pub(crate) fn failure(&self) -> watch::Receiver<Option<&'static str>> {
        self.failed.subscribe()
    }

    pub(crate) fn watch(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let guard = Guard { name, supervisor: Some(self.clone()) };
        async move {
            task.await;
            guard.ended();
        }
    }
}

/// If dropped before its task has ended, the task panicked.
struct Guard {
    name: &'static str,
    supervisor: Option<Supervisor>,
}

impl Guard {
    fn ended(mut self) {
        self.supervisor = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(Supervisor { failed, closing }) = &self.supervisor {
            failed.send_if_modified(|failed| failed.replace(self.name).is_none());
            closing.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panicking_task_closes_the_store_and_is_reported() {
        let closing = CancellationToken::new();
        let supervisor = Supervisor::new(closing.clone());
        let mut failure = supervisor.failure();
        tokio::spawn(supervisor.watch("fine", async {})).await.unwrap();
        assert!(failure.borrow().is_none() && !closing.is_cancelled());
        tokio::spawn(supervisor.watch("lease", async { panic!("oh") })).await.unwrap_err();
        assert_eq!(*failure.wait_for(Option::is_some).await.unwrap(), Some("lease"));
        assert!(closing.is_cancelled());
    }
}
