//! Leader election.
//!
//! A row names the leader, and the end of its lease. Every instance tries to take it: the leader to renew it, the
//! others to acquire it as soon as it has expired or was released. The database's clock decides. The leader measures
//! from before its request, so by its own clock the lease always expires earlier than by the database's, and there are
//! never two leaders.
//!
//! The wall clocks of control planes do not matter. When the database's clock jumps ahead, the lease moves, and the
//! previous leader notices at its next renewal; its writes until then carry the term of its lease, and are rejected. A
//! term begins when another instance takes the lease, and its number grows. When the clock jumps back, a dead leader's lease would last too long: a lease that is
//! not renewed is taken over after a few times its length by the clock of the waiting instance.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::rand;
use sqlx::{Connection as _, PgConnection};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::connect::Place;
use crate::{
    config::PostgresConfig,
    leader::{CurrentTerm, Term},
    presence::Presence,
};

/// A leader renews three times within its lease. Without a renewal for this many of our leases it is dead, unless its
/// own lease is configured to be twelve times as long.
const ABANDONED: u32 = 4;

/// Below this, lease requests would overload the database.
const MIN_TTL: Duration = Duration::from_millis(100);
/// Minimum frequency at which a candidate asks: a released lease is taken at once.
const CANDIDATE: Duration = Duration::from_secs(1);

/// Runs until it is cancelled, and then releases the lease.
pub(crate) async fn hold_lease(
    config: PostgresConfig,
    holder: Holder,
    lead: watch::Sender<bool>,
    presence: watch::Sender<Presence>,
    ended: CancellationToken,
) {
    // A separate task: also after a panic this instance stops leading, and the lease is released.
    let mut keeping = JoinSet::new();
    let mut lease = Lease::new(&config, &holder);
    keeping.spawn({
        let lead = lead.clone();
        async move {
            ended.run_until_cancelled(lease.keep(&lead, &presence)).await;
            lease
        }
    });
    let kept = keeping.join_next().await.expect("one task was spawned");
    lead.send_replace(false);
    holder.term.set(None);
    let panic = match kept {
        Ok(lease) => {
            note(lease.release().await);
            return;
        }
        Err(panic) => panic,
    };
    let mut lease = Lease::new(&config, &holder);
    note(match lease.place.connect().await {
        Ok(connection) => {
            lease.connection = Some(connection);
            lease.release().await
        }
        Err(error) => Err(error),
    });
    if let Ok(payload) = panic.try_into_panic() {
        std::panic::resume_unwind(payload);
    }
}

fn note(released: Result<(), sqlx::Error>) {
    if let Err(error) = released {
        tracing::warn!(%error, "failed to release the leader lease, it will expire");
    }
}

/// Holder, and expiry as the database writes it.
type Seen = (String, String);

struct Lease {
    place: Place,
    holder: Holder,
    /// Name of this process in insights.
    instance: String,
    ttl: Duration,
    /// Until when this instance may lead without another renewal.
    held_until: Option<Instant>,
    /// As the database numbers it.
    term: Option<Term>,
    /// The lease of another instance as it was last read, and since when it is unchanged.
    unchanged: Option<(Seen, Instant)>,
    connection: Option<PgConnection>,
}

impl Lease {
    fn new(config: &PostgresConfig, holder: &Holder) -> Self {
        Self {
            place: Place::new(config),
            holder: holder.clone(),
            instance: config.instance_id.clone(),
            ttl: config.lease_ttl.max(MIN_TTL),
            held_until: None,
            term: None,
            unchanged: None,
            connection: None,
        }
    }

    /// Never returns.
    async fn keep(&mut self, lead: &watch::Sender<bool>, presence: &watch::Sender<Presence>) {
        loop {
            let next = self.renew().await;
            // Known before leadership begins, so that whoever sees that it leads can write.
            self.holder.term.set(self.term.filter(|_| self.held_until.is_some()));
            lead.send_if_modified(|leads| {
                let changed = *leads != self.held_until.is_some();
                *leads ^= changed;
                changed
            });
            // After the renewal, so that a slow answer costs no lease.
            if let Ok(Ok(numbers)) = timeout_at(next, self.increment_number()).await {
                presence.send_modify(|presence| presence.hear(numbers));
            }
            sleep_until(next).await;
        }
    }

    /// Tries to acquire or renew the lease, and returns when to try again.
    async fn renew(&mut self) -> Instant {
        let asked = Instant::now();
        let next = asked + self.ttl / 3;
        // The expiry of the lease must be noticed at that time, not when the database has answered.
        let patience = self.held_until.map_or(next, |until| until.min(next));
        let was_held = self.held_until.is_some();
        match timeout_at(patience, self.take()).await {
            Ok(Ok(Some(term))) => {
                self.held_until = Some(asked + self.ttl);
                self.term = Some(term);
            }
            Ok(Ok(None)) => self.held_until = None,
            Ok(Err(_)) | Err(_) => self.held_until = self.held_until.filter(|until| *until > Instant::now()),
        }
        match (was_held, self.held_until.is_some()) {
            (false, true) => tracing::info!(holder = &*self.holder.name, "became the leader"),
            (true, false) => tracing::warn!(holder = &*self.holder.name, "lost the leader lease"),
            _ => (),
        }
        self.held_until.map_or(next.min(asked + CANDIDATE), |until| until.min(next))
    }

    /// `None` while another instance has it.
    async fn take(&mut self) -> Result<Option<Term>, sqlx::Error> {
        // Put back only on success: a failed connection is dropped.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.place.connect().await?,
        };
        let taken: Option<(i64,)> = sqlx::query_as(
            "INSERT INTO kodiak_lease AS lease (name, holder, expires)
             VALUES ('leader', $1, clock_timestamp() + $2 * interval '1 microsecond')
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires,
                 term = CASE WHEN lease.holder = excluded.holder THEN lease.term ELSE excluded.term END
             WHERE lease.holder = excluded.holder OR lease.expires <= clock_timestamp()
             RETURNING term",
        )
        .bind(&*self.holder.name)
        .bind(i64::try_from(self.ttl.as_micros()).unwrap_or(i64::MAX))
        .fetch_optional(&mut connection)
        .await?;
        let taken = match taken {
            Some((term,)) => Some(Term(term.cast_unsigned())),
            None => self.take_over(&mut connection).await?,
        };
        self.connection = Some(connection);
        Ok(taken)
    }

    /// Takes a lease that has not expired but is no longer renewed.
    async fn take_over(&mut self, connection: &mut PgConnection) -> Result<Option<Term>, sqlx::Error> {
        let seen: Option<Seen> = sqlx::query_as("SELECT holder, expires::text FROM kodiak_lease WHERE name = 'leader'")
            .fetch_optional(&mut *connection)
            .await?;
        let Some(seen) = seen else { return Ok(None) };
        let since = match &self.unchanged {
            Some((known, since)) if *known == seen => *since,
            _ => Instant::now(),
        };
        self.unchanged = Some((seen.clone(), since));
        if since.elapsed() < self.ttl * ABANDONED {
            return Ok(None);
        }
        tracing::warn!(
            holder = seen.0,
            expires = seen.1,
            "leader lease is not renewed, taking it over before it expires"
        );
        let taken: Option<(i64,)> = sqlx::query_as(
            "UPDATE kodiak_lease SET holder = $1, expires = clock_timestamp() + $2 * interval '1 microsecond', term = DEFAULT
             WHERE name = 'leader' AND holder = $3 AND expires = $4::timestamptz
             RETURNING term",
        )
        .bind(&*self.holder.name)
        .bind(i64::try_from(self.ttl.as_micros()).unwrap_or(i64::MAX))
        .bind(&seen.0)
        .bind(&seen.1)
        .fetch_optional(connection)
        .await?;
        Ok(taken.map(|(term,)| Term(term.cast_unsigned())))
    }

    /// Increments this instance's number, and returns those of all.
    async fn increment_number(&mut self) -> Result<Vec<(String, i64)>, sqlx::Error> {
        let Some(mut connection) = self.connection.take() else { return Err(sqlx::Error::PoolClosed) };
        sqlx::query(
            "WITH forgotten AS (DELETE FROM kodiak_instance WHERE seen < clock_timestamp() - interval '1 day' AND id <> $1)
             INSERT INTO kodiak_instance AS instance (id, number, seen) VALUES ($1, 1, clock_timestamp())
             ON CONFLICT (id) DO UPDATE SET number = instance.number + 1, seen = excluded.seen",
        )
        .bind(&self.instance)
        .execute(&mut connection)
        .await?;
        let numbers = sqlx::query_as("SELECT id, number FROM kodiak_instance").fetch_all(&mut connection).await?;
        self.connection = Some(connection);
        Ok(numbers)
    }

    async fn release(mut self) -> Result<(), sqlx::Error> {
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let release =
            sqlx::query("DELETE FROM kodiak_lease WHERE name = 'leader' AND holder = $1").bind(&*self.holder.name);
        self.place.within(release.execute(&mut connection)).await?;
        let ended = sqlx::query("DELETE FROM kodiak_instance WHERE id = $1").bind(&self.instance);
        self.place.within(ended.execute(&mut connection)).await?;
        self.place.within(connection.close()).await
    }
}

/// This process as holder of the lease.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) name: Arc<str>,
    pub(crate) term: CurrentTerm,
}

impl Holder {
    /// Two processes with the same name must not mistake each other's lease for their own.
    pub(crate) fn new(config: &PostgresConfig, term: CurrentTerm) -> Self {
        let mut tag = [0; 8];
        rand::fill(&mut tag).expect("the system has randomness");
        let name = format!("{} {:016x}", config.instance_id, u64::from_ne_bytes(tag));
        Self { name: name.into(), term }
    }
}
