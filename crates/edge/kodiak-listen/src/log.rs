//! Log lines that anybody can cause, also without a credential: few, short, and only of printable characters.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two lines of one event.
const EVERY: Duration = Duration::from_secs(10);
/// Longest text of a peer in a line, in characters.
const LONGEST: usize = 300;

/// Limits the lines of one event. Events are ours, never texts of peers, so there are few of them.
#[derive(Debug, Default)]
pub struct LogThrottle(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogThrottle {
    pub const fn new() -> Self {
        Self(Mutex::new(Logged { last: None, suppressed: 0 }))
    }

    /// How many lines were left out since the last one, if a line is due now.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            logged.suppressed += 1;
            return None;
        }
        logged.last = Some(now);
        Some(std::mem::take(&mut logged.suppressed))
    }
}

/// Text of a peer for a log line: control characters are escaped, and a long text is cut.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    let mut characters = text.chars();
    for character in characters.by_ref().take(LONGEST) {
        // Also those that change the direction of text, and line separators.
        let hides = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || hides {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_one_line_and_a_count() {
        let (throttle, start) = (LogThrottle::new(), Instant::now());
        assert_eq!(throttle.admit_at(start), Some(0));
        for n in 0..5_000 {
            assert_eq!(throttle.admit_at(start + Duration::from_millis(n)), None);
        }
        assert_eq!(throttle.admit_at(start + EVERY), Some(5_000));
        assert_eq!(throttle.admit_at(start + EVERY * 2), Some(0));
    }

    #[test]
    fn text_of_a_peer_is_one_short_line() {
        assert_eq!(printable("a\nb\u{1b}[31m\u{202e}c é"), "a\\u{a}b\\u{1b}[31m\\u{202e}c é");
        let long = printable(&"é".repeat(100_000));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(long.ends_with('…'));
    }
}
