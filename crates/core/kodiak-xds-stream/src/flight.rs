//! Responses that were sent and not yet answered.

use std::collections::{BTreeMap, VecDeque};
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
    /// Resources that changed with an unanswered response, and the last such response.
    changed: BTreeMap<Arc<str>, Nonce>,
}

impl Flight {
    pub(crate) fn sent(&mut self, nonce: Nonce, changed: Vec<Arc<str>>) {
        if self.unanswered.len() == MOST {
            self.unanswered.pop_front();
            self.dropped += 1;
        }
        self.unanswered.push_back(nonce);
        self.last = Some(nonce);
        self.changed.extend(changed.into_iter().map(|name| (name, nonce)));
    }

    /// The last response, answered or not.
    pub(crate) fn last(&self) -> Option<Nonce> {
        self.last
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Whether a response that changed this resource waits for its answer.
    pub(crate) fn awaits(&self, name: &str) -> bool {
        self.changed.contains_key(name)
    }

    /// Whether every response up to this one is answered.
    pub(crate) fn is_answered(&self, nonce: Nonce) -> bool {
        self.unanswered.front().is_none_or(|oldest| *oldest > nonce)
    }

    /// A client answers in order, so older responses count as answered too. A nonce that is foreign or already answered
    /// is stale and has no effect.
    pub(crate) fn answer(&mut self, nonce: Option<Nonce>, error: Option<Arc<str>>) -> Answer {
        let position = nonce.and_then(|nonce| self.unanswered.iter().position(|sent| *sent == nonce));
        let Some(position) = position else { return Answer::None };
        if let Some(answered) = self.unanswered.drain(..=position).next_back() {
            self.changed.retain(|_, nonce| *nonce > answered);
        }
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
        (1..=3).for_each(|nonce| flight.sent(Nonce(nonce), Vec::new()));
        assert_eq!(flight.answer(Some(Nonce(2)), None), Answer::Acknowledged { older: 1 });
        assert_eq!(flight.answer(Some(Nonce(2)), None), Answer::None);
        let error: Arc<str> = "no".into();
        assert_eq!(flight.answer(Some(Nonce(3)), Some(error.clone())), Answer::Rejected { older: 0, error });
        assert!(!flight.is_waiting());
    }

    #[test]
    fn resource_is_awaited_until_the_last_response_that_changed_it_is_answered() {
        let mut flight = Flight::default();
        for (nonce, names) in [(1, &["a", "b"][..]), (2, &[]), (3, &["b"])] {
            flight.sent(Nonce(nonce), names.iter().map(|name| Arc::from(*name)).collect());
        }
        let state = |flight: &Flight| (flight.awaits("a"), flight.awaits("b"), flight.is_answered(Nonce(2)));
        assert_eq!(state(&flight), (true, true, false));
        flight.answer(Some(Nonce(1)), None);
        assert_eq!(state(&flight), (false, true, false));
        flight.answer(Some(Nonce(2)), Some("no".into()));
        assert_eq!(state(&flight), (false, true, true));
        flight.answer(Some(Nonce(3)), None);
        assert_eq!(state(&flight), (false, false, true));
    }

    #[test]
    fn dropped_responses_are_answered_by_the_next_answer() {
        let mut flight = Flight::default();
        let sent = MOST as u64 + 5;
        (1..=sent).for_each(|nonce| flight.sent(Nonce(nonce), Vec::new()));
        assert_eq!(flight.answer(Some(Nonce(sent)), None), Answer::Acknowledged { older: sent - 1 });
    }
}
