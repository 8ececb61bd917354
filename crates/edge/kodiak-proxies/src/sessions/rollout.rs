//! Which step of a rollout a proxy has acknowledged.
//!
//! Every published snapshot carries the token of its step. The stream says later which revision the proxy has taken in
//! full; this says which token that was.

use std::{collections::VecDeque, sync::Arc};

/// A proxy that answers nothing for so many steps is told apart no more; what it acknowledges next counts.
const MOST_STEPS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Rollout {
    /// What may still be acknowledged, in the order it was published.
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    first: u64,
    last: u64,
    token: Arc<str>,
}

impl Rollout {
    /// Revisions grow, and one has one token.
    pub(crate) fn published(&mut self, revision: u64, token: Arc<str>) {
        match self.steps.back_mut() {
            Some(step) if step.token == token => step.last = revision,
            _ => self.steps.push_back(Step { first: revision, last: revision, token }),
        }
        if self.steps.len() > MOST_STEPS {
            self.steps.pop_front();
        }
    }

    /// The token that the snapshot of this revision had.
    pub(crate) fn settled(&mut self, revision: u64) -> Option<Arc<str>> {
        while self.steps.front().is_some_and(|step| step.last < revision) {
            self.steps.pop_front();
        }
        self.steps.front().filter(|step| step.first <= revision).map(|step| step.token.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(published: &[(u64, &str)]) -> Rollout {
        let mut rollout = Rollout::default();
        for (revision, token) in published {
            rollout.published(*revision, (*token).into());
        }
        rollout
    }

    #[test]
    fn a_revision_has_the_token_it_was_published_with() {
        let mut rollout = rollout(&[(1, "a"), (2, "a"), (5, "b"), (9, "a")]);
        assert_eq!(rollout.settled(1).as_deref(), Some("a"));
        assert_eq!(rollout.settled(2).as_deref(), Some("a"));
        assert_eq!(rollout.settled(5).as_deref(), Some("b"));
        assert_eq!(rollout.settled(9).as_deref(), Some("a"));
        assert_eq!(rollout.settled(9).as_deref(), Some("a"), "again, with nothing newer");
    }

    #[test]
    fn what_was_never_published_has_none() {
        assert_eq!(rollout(&[]).settled(1), None);
        assert_eq!(rollout(&[(5, "b")]).settled(1), None);
        assert_eq!(rollout(&[(5, "b")]).settled(9), None);
    }

    #[test]
    fn a_proxy_that_never_answers_does_not_fill_the_memory() {
        let mut rollout = Rollout::default();
        for revision in 0..10_000 {
            rollout.published(revision, revision.to_string().into());
        }
        assert_eq!(rollout.steps.len(), MOST_STEPS);
        assert_eq!(rollout.settled(9_999).as_deref(), Some("9999"));
    }
}
