//! Back end with a PostgreSQL database that several control planes share.
//!
//! Every instance has all records in memory. To commit, it takes a lock, reads the commits of others since then,
//! decides on that state, and writes: so decisions are always made on the newest state, and revisions are assigned in
//! one order. A notification tells the others to read. Notifications can be lost: an instance that misses one reads at
//! the next poll, or when it commits.

mod connect;
mod lease;
mod listen;
mod migrate;
mod read;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{Connection as _, PgConnection};

use self::{connect::Place, read::Found};
pub(crate) use self::{
    lease::{Holder, hold_lease},
    listen::listen,
};
use super::Engine;
use crate::{
    config::PostgresConfig,
    error::StoreError,
    event::{Batch, Changes, Head},
    leader::Term,
    names::Names,
    row::Reader,
    seal::Sealer,
};

/// One view of the data for all statements.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Each statement must see the commits of others before the lock was taken, so this is not repeatable read. The
/// timeouts keep a hanging control plane from blocking all others.
const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '5s';
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    SELECT pg_advisory_xact_lock(7236834721)"; // a number that nobody else uses

/// PostgreSQL's error code.
const DISK_FULL: &str = "53100";

pub(crate) struct Postgres {
    place: Place,
    /// Of the lease, if this instance leads.
    holder: Arc<str>,
    sealer: Arc<Sealer>,
    names: Names,
    /// Has an open transaction between `begin` and `persist`. Taken while in use and put back on success: a connection
    /// that failed, or whose answer was not awaited, is dropped, and the database rolls back.
    connection: Option<PgConnection>,
    /// The last write failed because the database has no space. The next probe must allocate some.
    was_full: bool,
}

impl Postgres {
    /// `holder` is the name of this process in the lease.
    pub(crate) async fn open(
        config: &PostgresConfig,
        holder: Arc<str>,
        sealer: Arc<Sealer>,
    ) -> Result<Self, StoreError> {
        let place = Place::new(config);
        migrate::run(&place).await?;
        Ok(Self { place, holder, sealer, names: Names::default(), connection: None, was_full: false })
    }

    /// Opens a transaction and reads the changes beyond a commit.
    async fn find(&mut self, open: &'static str, known: Head) -> Result<(PgConnection, Option<Changes>), StoreError> {
        let (connection, found) = match self.connection.take() {
            // The connection may have been cut while idle, which does not mean that the database is unavailable.
            Some(connection) => match self.place.within(read::find(connection, open, known)).await {
                Ok(found) => found,
                Err(_) => self.find_anew(open, known).await?,
            },
            None => self.find_anew(open, known).await?,
        };
        let mut reader = Reader { sealer: &self.sealer, names: &mut self.names };
        let changes = found.map(|found| found.to_changes(&mut reader)).transpose()?;
        Ok((connection, changes))
    }

    async fn find_anew(&self, open: &'static str, known: Head) -> Result<(PgConnection, Option<Found>), StoreError> {
        let found = async { read::find(self.place.connect().await?, open, known).await };
        self.place.within(found).await.map_err(|error| self.place.back_end_failed(error))
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn changes(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        let (connection, changes) = self.find(READ, known).await?;
        self.connection = Some(connection);
        self.release().await;
        Ok(changes)
    }

    async fn begin(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        let (connection, changes) = self.find(WRITE, known).await?;
        self.connection = Some(connection);
        Ok(changes)
    }

    async fn persist(&mut self, batch: Batch) -> Result<(), StoreError> {
        let connection = self.connection.take().expect("`begin` left it with a transaction open");
        let written = write::write(connection, &batch, &self.sealer, self.was_full);
        match self.place.within(written).await {
            Ok(connection) => {
                self.connection = Some(connection);
                self.was_full = false;
            }
            Err(error) => {
                self.was_full |=
                    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(DISK_FULL));
                return Err(self.place.back_end_failed(error));
            }
        }
        Ok(())
    }

    /// Another instance cannot take the lease before the transaction ends.
    async fn leads(&mut self, term: Term) -> Result<bool, StoreError> {
        let mut connection = self.connection.take().expect("`begin` left it with a transaction open");
        let held =
            sqlx::query("SELECT FROM kodiak_lease WHERE name = 'leader' AND holder = $1 AND term = $2 FOR SHARE")
                .bind(&*self.holder)
                .bind(term.0.cast_signed());
        let found = self.place.within(held.fetch_optional(&mut connection)).await;
        let found = found.map_err(|error| self.place.back_end_failed(error))?;
        self.connection = Some(connection);
        Ok(found.is_some())
    }

    async fn release(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            let released = self.place.within(sqlx::raw_sql("ROLLBACK").execute(&mut connection)).await;
            self.connection = released.is_ok().then_some(connection);
        }
    }

    async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(self.place.within(connection.close()).await); // a courtesy
        }
    }
}
