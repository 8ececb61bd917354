//! Nudges the writer when others committed, and at every poll interval.

use std::{convert::Infallible, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::connect::Place;
use crate::{config::PostgresConfig, history::Published};

pub(super) const CHANNEL: &str = "kodiak_store";

const MIN_POLL: Duration = Duration::from_millis(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Runs until it is cancelled, whatever happens to the database.
pub(crate) async fn listen(
    config: PostgresConfig,
    published: Arc<ArcSwap<Published>>,
    nudge: Arc<Notify>,
    ended: CancellationToken,
) {
    let listener = Listener { place: Place::new(&config), poll: config.poll_interval.max(MIN_POLL), published, nudge };
    let forever = async {
        let mut pause = FIRST_PAUSE;
        loop {
            let Err((error, heard)) = listener.listen().await;
            tracing::warn!(%error, "lost the connection for change notifications, reconnecting");
            // Commits in the meantime cause no notification.
            listener.nudge.notify_one();
            pause = if heard { FIRST_PAUSE } else { (pause * 2).min(LAST_PAUSE) };
            sleep(pause).await;
        }
    };
    ended.run_until_cancelled(Box::pin(forever)).await;
}

struct Listener {
    place: Place,
    poll: Duration,
    published: Arc<ArcSwap<Published>>,
    nudge: Arc<Notify>,
}

impl Listener {
    /// Ends with the connection, and returns whether there was one.
    async fn listen(&self) -> Result<Infallible, (sqlx::Error, bool)> {
        let mut listener = self.connect().await.map_err(|error| (error, false))?;
        // Commits until now caused no notification either.
        self.nudge.notify_one();
        loop {
            match timeout(self.poll, listener.try_recv()).await {
                Ok(Ok(Some(notice))) if self.knows(&notice) => (),
                // A notification, a reconnect, or a poll.
                Ok(Ok(_)) | Err(_) => self.nudge.notify_one(),
                Ok(Err(error)) => return Err((error, true)),
            }
        }
    }

    async fn connect(&self) -> Result<PgListener, sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.place.timeout)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.place.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        self.place.within(listener.listen(CHANNEL)).await?;
        Ok(listener)
    }

    /// Most notifications are about this store's own commits.
    fn knows(&self, notice: &PgNotification) -> bool {
        notice.payload().parse().is_ok_and(|revision: u64| revision <= self.published.load().state.revision())
    }
}
