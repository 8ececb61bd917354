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
    /// Number of unanswered responses that were dropped. The next answer covers them too.
    dropped: u64,
    last: Option<Nonce>,
}

impl Flight {
    pub(crate) fn sent(&mut self, nonce: Nonce) {
        if self.unanswered.len() == MOST {
            self.unanswered.pop_front();
            self.dropped += 1;
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
        let older = position as u64 + std::mem::take(&mut self.dropped);
        error.map_or(Answer::Acknowledged { older }, |error| Answer::Rejected { older, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_covers_all_older_responses() {
        let mut flight = Flight::default();
        (1..=3).for_each(|nonce| flight.sent(Nonce(nonce)));
        assert_eq!(flight.answer(Some(Nonce(2)), None), Answer::Acknowledged { older: 1 });
        assert_eq!(flight.answer(Some(Nonce(2)), None), Answer::None);
        let error: Arc<str> = "no".into();
        assert_eq!(flight.answer(Some(Nonce(3)), Some(error.clone())), Answer::Rejected { older: 0, error });
        assert!(!flight.is_waiting());
    }

    #[test]
    fn dropped_responses_are_answered_by_the_next_answer() {
        let mut flight = Flight::default();
        let sent = MOST as u64 + 5;
        (1..=sent).for_each(|nonce| flight.sent(Nonce(nonce)));
        assert_eq!(flight.answer(Some(Nonce(sent)), None), Answer::Acknowledged { older: sent - 1 });
    }
}
