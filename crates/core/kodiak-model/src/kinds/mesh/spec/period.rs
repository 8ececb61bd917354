//! Validity periods of certificates: `30d`, `1y` or `0`.

use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// One number and one unit out of y, w, d, h, m, s and ms. `None` for anything else.
pub fn parse_period(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => DAY,
        "w" => 7 * DAY,
        "y" => 365 * DAY,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_and_a_unit() {
        for (text, seconds) in [("0", 0), ("30s", 30), ("24h", DAY), ("1d", DAY), ("2w", 14 * DAY), ("1y", 365 * DAY)] {
            assert_eq!(parse_period(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_period("5ms"), Some(Duration::from_millis(5)));
        for text in ["", "1", "d", "1h30m", "-1d", "1.5d", "1 d", "99999999999999999999s", "18446744073709551615y"] {
            assert_eq!(parse_period(text), None, "{text}");
        }
    }
}
