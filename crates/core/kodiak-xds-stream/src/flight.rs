//! Responses that were sent and not yet answered.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::Nonce;
use crate::subscription::Answer;

/// Of a client that asks on and on and answers nothing, the oldest are forgotten.
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

    /// The response that was sent last, answered or not.
    pub(crate) fn last(&self) -> Option<Nonce> {
        self.last
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// A client answers in the order in which it was sent to, so what is older counts as answered too. A nonce that
    /// is not from us, or was answered before, is stale and says nothing.
    pub(crate) fn answer(&mut self, nonce: Option<Nonce>, error: Option<Arc<str>>) -> Answer {
        let position = nonce.and_then(|nonce| self.unanswered.iter().position(|sent| *sent == nonce));
        let Some(position) = position else { return Answer::None };
        self.unanswered.drain(..=position);
        error.map_or(Answer::Acknowledged, Answer::Rejected)
    }
}
