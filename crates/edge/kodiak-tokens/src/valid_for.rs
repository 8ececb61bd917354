//! How long a token is to be valid: Go's durations (`24h`, `1h30m`, `1.5h`), and days, weeks and years besides.

use std::time::Duration;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Long enough for anybody, and short enough for no sum of times to overflow.
pub const MAX_VALID_FOR: Duration = Duration::from_secs(100 * YEAR);

/// Longer text is not a duration and not worth repeating in a message.
const MAX_TEXT: usize = 64;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidForError {
    #[error("not a duration: {0:?}; write for example 24h, 1h30m, 30d or 1y")]
    Syntax(String),
    #[error("must be at least 1s")]
    TooShort,
    #[error("must not be longer than 100 years")]
    TooLong,
}

/// Reads a duration between a second and `MAX_VALID_FOR`, cut to whole seconds because tokens count in them.
pub fn parse_valid_for(text: &str) -> Result<Duration, ValidForError> {
    if text.len() > MAX_TEXT {
        return Err(ValidForError::Syntax(format!("{}...", text.chars().take(MAX_TEXT / 4).collect::<String>())));
    }
    let nanos = parse(text).ok_or_else(|| ValidForError::Syntax(text.to_owned()))?;
    if nanos > MAX_VALID_FOR.as_nanos() {
        return Err(ValidForError::TooLong);
    }
    if text.starts_with('-') || nanos < NANOS_PER_SECOND {
        return Err(ValidForError::TooShort);
    }
    u64::try_from(nanos / NANOS_PER_SECOND).map(Duration::from_secs).map_err(|_| ValidForError::TooLong)
}

/// The amount in nanoseconds, without its sign. None if the text is not a duration.
fn parse(text: &str) -> Option<u128> {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(number);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        total = total.saturating_add(amount(digits, unit_nanos(unit)?)?);
        rest = tail;
    }
    Some(total)
}

/// `digits` units, where the digits may have a fraction. Too much is the most there is, which is beyond every limit.
fn amount(digits: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut nanos = 0_u128;
    for digit in whole.bytes() {
        nanos = nanos.saturating_mul(10).saturating_add(u128::from(digit - b'0'));
    }
    nanos = nanos.saturating_mul(unit);
    let mut share = unit;
    for digit in fraction.bytes() {
        share /= 10;
        nanos = nanos.saturating_add(share * u128::from(digit - b'0'));
    }
    Some(nanos)
}

fn unit_nanos(unit: &str) -> Option<u128> {
    let seconds = |seconds: u64| Some(u128::from(seconds) * NANOS_PER_SECOND);
    match unit {
        "ns" => Some(1),
        // Go takes the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(HOUR),
        "d" => seconds(DAY),
        "w" => seconds(7 * DAY),
        "y" => seconds(YEAR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("10s", 10),
            ("24h", DAY),
            ("1h30m", HOUR + 1800),
            ("1.5h", HOUR + 1800),
            (".5h", 1800),
            ("1.h", HOUR),
            ("+1m", 60),
            ("1h1m1s1000ms", HOUR + 62),
            ("1000000us", 1),
            ("1000000\u{b5}s", 1),
            ("30d", 30 * DAY),
            ("2w", 14 * DAY),
            ("1y", YEAR),
            ("1y1d", YEAR + DAY),
            ("87600h", 10 * YEAR),
            ("100y", 100 * YEAR),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse_valid_for(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_repeated_with_an_example() {
        for text in ["", "abc", "1", "h", "1x", "1 h", " 1h", "1h ", "1..5h", ".h", "-", "--1h", "1h-1m", "1H", "1é"] {
            assert_eq!(parse_valid_for(text), Err(ValidForError::Syntax(text.to_owned())), "{text:?}");
        }
        let error = parse_valid_for("soon").unwrap_err().to_string();
        assert_eq!(error, r#"not a duration: "soon"; write for example 24h, 1h30m, 30d or 1y"#);
        let long = parse_valid_for(&"1h".repeat(1000)).unwrap_err().to_string();
        assert!(long.len() < 100, "{long}");
    }

    #[test]
    fn limits_are_kept() {
        for text in ["0", "0s", "-0", "999ms", "-1h", "-100y"] {
            assert_eq!(parse_valid_for(text), Err(ValidForError::TooShort), "{text}");
        }
        for text in ["100y1s", "101y", "876001h", "99999999999999999999999999999999999999999999999999y"] {
            assert_eq!(parse_valid_for(text), Err(ValidForError::TooLong), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse_valid_for(&text);
        }

        #[test]
        fn what_is_read_is_within_limits(text in "[-+]?([0-9.]{1,12}(ns|us|ms|s|m|h|d|w|y)){1,4}") {
            if let Ok(duration) = parse_valid_for(&text) {
                prop_assert!(duration >= Duration::from_secs(1) && duration <= MAX_VALID_FOR);
            }
        }
    }
}
