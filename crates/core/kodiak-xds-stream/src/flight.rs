//! Responses that were sent and not yet answered.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::Nonce;
use crate::subscription::Answer;

/// Bounds the memory for a client that keeps requesting and never answers: the oldest are dropped.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Flight {
    unanswered: VecDeque<Nonce>,
    last: Option<Nonce>,
}

impl Flight {
    pub(crate) fn sent(&mut self, nonce: Nonce) {
        if self.unanswered.len() == MOST {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(nonce);
        self.last = Some(nonce);
    }

    /// The last response, answered or not.
    pub(crate) fn last(&self) -> Option<Nonce> {
        self.last
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// A client answers in order, so older responses count as answered too. A nonce that is foreign or already answered
    /// is stale and has no effect.
    pub(crate) fn answer(&mut self, nonce: Option<Nonce>, error: Option<Arc<str>>) -> Answer {
        let position = nonce.and_then(|nonce| self.unanswered.iter().position(|sent| *sent == nonce));
        let Some(position) = position else { return Answer::None };
        self.unanswered.drain(..=position);
        error.map_or(Answer::Acknowledged, Answer::Rejected)
    }
}
