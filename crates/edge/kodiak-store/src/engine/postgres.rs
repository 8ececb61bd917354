//! A PostgreSQL database that several control planes share.
//!
//! Everybody has all of it in memory. Who commits takes a lock, reads what others committed since, decides on that, and
//! writes: so decisions are always made on the newest state, and revisions are given out in one order. A notice tells the
//! others to look. Notices can be lost, and that is fine: whoever misses one looks at the next poll, or when it commits.

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
pub(crate) use self::{lease::hold_lease, listen::listen};
use super::Engine;
use crate::{
    config::PostgresConfig,
    error::StoreError,
    event::{Batch, Changes, Head},
    names::Names,
    row::Reader,
    seal::Sealer,
};

/// One view of the data, however many statements look at it.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Each statement must see what others committed before we got the lock, so this is no repeatable read. The limits
/// keep a control plane that hangs from holding up all others.
const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '5s';
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    SELECT pg_advisory_xact_lock(7236834721)"; // a number that nobody else uses

/// PostgreSQL's code for it.
const DISK_FULL: &str = "53100";

pub(crate) struct Postgres {
    place: Place,
    sealer: Arc<Sealer>,
    names: Names,
    /// Between `begin` and `persist` with a transaction open. Taken while it works and put back when all went well: a
    /// connection that failed, or whose answer was not waited for, is dropped, and the database rolls back.
    connection: Option<PgConnection>,
    /// The last write failed because the database has no space. A probe then has to take some.
    was_full: bool,
}

impl Postgres {
    pub(crate) async fn open(config: &PostgresConfig, sealer: Arc<Sealer>) -> Result<Self, StoreError> {
        let place = Place::new(config);
        migrate::run(&place).await?;
        Ok(Self { place, sealer, names: Names::default(), connection: None, was_full: false })
    }

    /// Opens a transaction and looks for what is beyond a commit.
    async fn find(&mut self, open: &'static str, known: Head) -> Result<(PgConnection, Option<Changes>), StoreError> {
        let (connection, found) = match self.connection.take() {
            // It may have been cut while nobody used it, which says nothing about the database.
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
        self.place.within(found).await.map_err(|error| self.place.away(error))
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
                return Err(self.place.away(error));
            }
        }
        Ok(())
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
