//! How long ago, in one unit: `5s`, `3m`, `2h`, `4d`, `1y`.

use jiff::Timestamp;

/// The age of something changed at `time` (RFC 3339), as kumactl shows it.
pub(super) fn since(time: Option<&str>, now: Timestamp) -> String {
    // Go's zero time means that nobody has set it.
    let Some(time) = time.filter(|time| !time.starts_with("0001-01-01")) else { return "never".to_owned() };
    let Ok(then) = time.parse::<Timestamp>() else { return "unknown".to_owned() };
    // Clocks differ; what is to come happens now.
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if minutes == 0 => format!("{seconds}s"),
        () if hours == 0 => format!("{minutes}m"),
        () if days == 0 => format!("{hours}h"),
        () if days < 365 => format!("{days}d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_is_enough() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (time, age) in [
            ("2026-11-15T11:59:55.123456789Z", "5s"),
            ("2026-11-15T11:00:01Z", "59m"),
            ("2026-11-15T13:00:00+02:00", "1h"),
            ("2026-11-01T12:00:00Z", "14d"),
            ("2020-11-15T12:00:00Z", "6y"),
            ("2027-01-01T00:00:00Z", "0s"),
            ("0001-01-01T00:00:00Z", "never"),
            ("yesterday", "unknown"),
        ] {
            assert_eq!(since(Some(time), now), age, "{time}");
        }
        assert_eq!(since(None, now), "never");
    }
}
