//! Counters of a stream, for insights.

use std::sync::Arc;

use crate::subscription::Answer;

/// Longer error messages of clients are truncated; Envoy's start with the important part.
const LONGEST_MESSAGE: usize = 4096;

/// Of one type on one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub sent: u64,
    pub acknowledged: u64,
    pub rejected: u64,
    /// Error of the client's last rejection (NACK).
    pub last_error: Option<Arc<str>>,
    /// Whether its last answer was a NACK: it now runs on an older version.
    pub rejecting: bool,
}

impl Counters {
    pub(crate) fn count(&mut self, answer: Answer) {
        match answer {
            Answer::None => (),
            Answer::Acknowledged { older } => {
                self.acknowledged += older + 1;
                self.rejecting = false;
            }
            Answer::Rejected { older, error } => {
                self.acknowledged += older;
                self.rejected += 1;
                self.rejecting = true;
                self.last_error = Some(cut(error));
            }
        }
    }
}

fn cut(message: Arc<str>) -> Arc<str> {
    let end = message.floor_char_boundary(LONGEST_MESSAGE);
    if end == message.len() { message } else { message[..end].into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(error: &str) -> Answer {
        Answer::Rejected { older: 0, error: error.into() }
    }

    #[test]
    fn every_answered_response_is_counted_once() {
        let mut counters = Counters { sent: 6, ..Counters::default() };
        counters.count(Answer::Acknowledged { older: 2 });
        counters.count(Answer::Rejected { older: 1, error: "no".into() });
        counters.count(Answer::Acknowledged { older: 0 });
        assert_eq!(counters.acknowledged + counters.rejected, counters.sent);
        assert_eq!(counters.rejected, 1);
    }

    #[test]
    fn long_messages_are_truncated_at_a_character() {
        let mut counters = Counters::default();
        counters.count(rejected(&"é".repeat(3000)));
        assert_eq!(counters.last_error.map(|message| message.len()), Some(LONGEST_MESSAGE));
    }

    #[test]
    fn the_error_outlives_the_rejection() {
        let mut counters = Counters::default();
        counters.count(rejected("no"));
        assert!(counters.rejecting);
        counters.count(Answer::Acknowledged { older: 0 });
        assert!(!counters.rejecting);
        assert_eq!(counters.last_error.as_deref(), Some("no"));
    }
}
