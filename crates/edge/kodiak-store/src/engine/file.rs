//! Back end with one redb file. Each commit is on the disk before it is answered.
//!
//! No other process writes the file, so after it was read once there are no changes to find, except after a failure:
//! then it is reopened, and may contain the batch that failed.

mod encode;
mod migrate;
pub mod offline;
mod open;
mod tables;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use redb::Database;
use tokio::task::spawn_blocking;

pub(crate) use self::encode::Damage as EntryDamage;
use super::Engine;
use crate::{
    error::StoreError,
    event::{Batch, Changes, Head},
    leader::Term,
    seal::Sealer,
};

pub(crate) struct File {
    path: Arc<Path>,
    sealer: Arc<Sealer>,
    /// `None` before the first use, and after a failure, after which redb must be reopened.
    database: Option<Database>,
}

impl File {
    pub(crate) fn new(path: PathBuf, sealer: Arc<Sealer>) -> Self {
        Self { path: path.into(), sealer, database: None }
    }

    /// Reads changes beyond `known`, from a file that was just opened.
    async fn open(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        let (path, sealer) = (self.path.clone(), self.sealer.clone());
        let (database, changes) = blocking(&self.path, move || {
            let database = open::open(&path)?;
            let changes = tables::read(&database, &path, &sealer, known).map_err(|error| error.at(&path))?;
            Ok((database, changes))
        })
        .await?;
        self.database = Some(database);
        Ok(changes)
    }
}

#[async_trait]
impl Engine for File {
    async fn changes(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        if self.database.is_some() { Ok(None) } else { self.open(known).await }
    }

    async fn begin(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        self.changes(known).await
    }

    async fn persist(&mut self, batch: Batch) -> Result<(), StoreError> {
        let database = self.database.take().expect("`begin` opened it");
        let (path, sealer) = (self.path.clone(), self.sealer.clone());
        let database = blocking(&self.path, move || {
            // A small commit fits into existing pages, and would succeed on a full disk.
            if batch.is_empty() {
                open::check_space(&path)?;
            }
            tables::write(&database, &sealer, &batch).map_err(|error| error.at(&path))?;
            Ok(database)
        })
        .await?;
        self.database = Some(database);
        Ok(())
    }

    async fn leads(&mut self, term: Term) -> Result<bool, StoreError> {
        Ok(term == Term::ONLY)
    }

    async fn release(&mut self) {}

    async fn close(&mut self) {
        let database = self.database.take();
        // Cleans up the file, which takes a moment. Nothing depends on it.
        drop(spawn_blocking(|| drop(database)).await);
    }
}

/// Runs on a thread that may block on the disk.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    // redb trusts the structure of its pages, and panics when it is invalid.
    spawn_blocking(work).await.unwrap_or_else(|panicked| Err(StoreError::damaged_file(path, panicked)))
}

#[cfg(test)]
mod tests {
    use kodiak_model::ResourceKey;

    use super::*;
    use crate::id::Id;

    /// As after a commit whose result is unknown.
    #[tokio::test]
    async fn reopens_after_a_failure_and_reports_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::new(folder.path().join("kodiak.redb"), Arc::default());
        let empty = file.begin(Head::default()).await.unwrap().unwrap().head;
        assert!(empty.history != Id::default() && empty.revision == 0);
        let gone = ResourceKey::global("Mesh", "gone");
        let head = Head { revision: 1, commit: Id::random(), ..empty };
        let batch = Batch { puts: vec![], gone: vec![gone.clone()], tombstones: vec![(1, gone)], head };
        file.persist(batch).await.unwrap();
        assert!(file.begin(head).await.unwrap().is_none());

        file.database = None;
        assert!(file.begin(head).await.unwrap().is_none());
        file.database = None;
        assert_eq!(file.begin(empty).await.unwrap().unwrap().events.len(), 1);
        file.database = None;
        let other = Head { commit: Id::random(), ..head };
        assert!(file.begin(other).await.unwrap().unwrap().complete, "the same revision of another history");
    }
}
