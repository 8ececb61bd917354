//! Which step of a rollout a proxy has acknowledged, and which permissions.
//!
//! Every published snapshot carries their tokens. The stream reports later which revision the proxy has acknowledged in
//! full; this maps the revision to its tokens.

use std::{collections::VecDeque, sync::Arc};

/// Steps that are remembered for a proxy that acknowledges nothing. Older ones are forgotten.
const MOST_STEPS: usize = 256;

/// Tokens that a proxy acknowledges with a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotTokens {
    /// Step of a rollout.
    pub rollout: Arc<str>,
    /// Permissions of the inbounds, and certificates. Empty if nobody waits for them.
    pub permissions: Arc<str>,
}

impl From<&str> for SnapshotTokens {
    /// Of a step.
    fn from(rollout: &str) -> Self {
        Self { rollout: rollout.into(), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rollout {
    /// Steps that may still be acknowledged, in the order of their publication.
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    first: u64,
    last: u64,
    tokens: SnapshotTokens,
}

impl Rollout {
    /// Revisions grow, and the tokens of one do not change.
    pub(crate) fn published(&mut self, revision: u64, tokens: SnapshotTokens) {
        match self.steps.back_mut() {
            Some(step) if step.tokens == tokens => step.last = revision,
            _ => self.steps.push_back(Step { first: revision, last: revision, tokens }),
        }
        if self.steps.len() > MOST_STEPS {
            self.steps.pop_front();
        }
    }

    /// The tokens that the snapshot of this revision had.
    pub(crate) fn settled(&mut self, revision: u64) -> Option<SnapshotTokens> {
        while self.steps.front().is_some_and(|step| step.last < revision) {
            self.steps.pop_front();
        }
        self.steps.front().filter(|step| step.first <= revision).map(|step| step.tokens.clone())
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
        assert_eq!(rollout.settled(1), Some("a".into()));
        assert_eq!(rollout.settled(2), Some("a".into()));
        assert_eq!(rollout.settled(5), Some("b".into()));
        assert_eq!(rollout.settled(9), Some("a".into()));
        assert_eq!(rollout.settled(9), Some("a".into()), "again, with nothing newer");
    }

    #[test]
    fn unpublished_revision_has_no_token() {
        assert_eq!(rollout(&[]).settled(1), None);
        assert_eq!(rollout(&[(5, "b")]).settled(1), None);
        assert_eq!(rollout(&[(5, "b")]).settled(9), None);
    }

    #[test]
    fn silent_proxy_uses_bounded_memory() {
        let mut rollout = Rollout::default();
        for revision in 0..10_000 {
            rollout.published(revision, revision.to_string().as_str().into());
        }
        assert_eq!(rollout.steps.len(), MOST_STEPS);
        assert_eq!(rollout.settled(9_999), Some("9999".into()));
    }
}
