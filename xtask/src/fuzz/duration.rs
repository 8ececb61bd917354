//! Durations on the command line: `90s`, `10m`, `2h`.

/// The number of seconds.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time; write for example 90s, 10m or 2h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    // libFuzzer treats 0 as unlimited.
    number.checked_mul(factor).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_seconds_minutes_and_hours() {
        assert_eq!(parse("90s"), Ok(90));
        assert_eq!(parse("10m"), Ok(600));
        assert_eq!(parse("2h"), Ok(7200));
    }

    #[test]
    fn rejects_other_texts() {
        for text in ["", "m", "10", "0s", "-1m", "1d", "1.5h", "10ü", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
