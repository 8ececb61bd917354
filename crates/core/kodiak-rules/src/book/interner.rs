//! Equal answers are one answer: many proxies of a service have the same policies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{Matched, Policy, Selection};

/// A policy as it was filed, by its number, and what of a proxy it selects.
pub(super) type Line = (u64, Selection);

/// What was answered and is still in use.
#[derive(Default)]
pub(super) struct Memo(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_lines: HashMap<Vec<Line>, Weak<Matched>>,
    /// How many there may be before those that nobody uses are thrown away.
    limit: usize,
}

const LEAST_LIMIT: usize = 1024;

impl Memo {
    /// The answer for these lines; `policy` says which policy a line is about.
    pub(super) fn answer<'a>(&self, lines: Vec<Line>, policy: impl Fn(usize) -> &'a Arc<Policy>) -> Arc<Matched> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answers.by_lines.get(&lines).and_then(Weak::upgrade) {
            return known;
        }
        if answers.by_lines.len() >= answers.limit {
            answers.by_lines.retain(|_, answer| answer.strong_count() > 0);
            answers.limit = LEAST_LIMIT.max(2 * answers.by_lines.len());
        }
        let mut matched = Matched::default();
        for (n, (_, selection)) in lines.iter().enumerate() {
            matched.add(policy(n), selection);
        }
        let matched = Arc::new(matched);
        answers.by_lines.insert(lines, Arc::downgrade(&matched));
        matched
    }
}

#[cfg(test)]
impl Memo {
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_lines.len()
    }
}
