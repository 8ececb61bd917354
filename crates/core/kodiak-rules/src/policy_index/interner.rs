//! Interner of results: many proxies of a service have the same policies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{Matched, Policy, Selection};

/// A policy by its number, and its selection.
pub(super) type Line = (u64, Selection);

/// Results that are in use.
#[derive(Default)]
pub(super) struct ResultInterner(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_lines: HashMap<Vec<Line>, Weak<Matched>>,
    /// Size at which unused results are dropped.
    limit: usize,
}

const LEAST_LIMIT: usize = 1024;

impl ResultInterner {
    /// The result for these lines; `policy` returns the policy of a line.
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
impl ResultInterner {
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_lines.len()
    }
}
