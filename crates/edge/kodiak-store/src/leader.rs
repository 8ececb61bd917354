//! Writes of the leader.
//!
//! A leader that was suspended, or that lost the database, may still take itself for the leader when another one has
//! taken over. Its decisions are old, so each of its writes carries the term in which it was made. The back end compares
//! it with the stored one in the transaction of the write, and rejects a write of an earlier term.
//!
//! With a file or in memory there is one term: only one process has the data open, and it holds a lock on the file until
//! it ends, suspended or not.
//!
//! **Invariant:** no write of a [`Leader`] becomes durable after a write in a later term.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::store::Store;

/// Period in which one instance leads. A later one has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(pub(crate) u64);

impl Term {
    /// Where there is no election.
    pub(crate) const ONLY: Self = Self(1);
}

/// The term of this instance. `None` while it does not lead.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentTerm(Arc<AtomicU64>);

impl CurrentTerm {
    pub(crate) fn set(&self, term: Option<Term>) {
        self.0.store(term.map_or(0, |Term(number)| number), Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> Option<Term> {
        Some(Term(self.0.load(Ordering::SeqCst))).filter(|Term(number)| *number != 0)
    }
}

/// The store, for work that only the leader does. All commits are made in one term, and fail with
/// [`StoreError::Deposed`](crate::StoreError::Deposed) once another one has begun. To be asked for again before each
/// decision.
#[derive(Clone)]
pub struct Leader(pub(crate) Store);

impl Deref for Leader {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leader").field(&self.0).finish()
    }
}
