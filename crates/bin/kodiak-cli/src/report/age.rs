//! Age in one unit: `5s`, `3m`, `2h`, `4d`, `1y`.

use jiff::Timestamp;

/// Age at `now` of a change at `time` (RFC 3339), as kumactl shows it.
pub(super) fn since(time: Option<&str>, now: Timestamp) -> String {
    // Go's zero time means unset.
    let Some(time) = time.filter(|time| !time.starts_with("0001-01-01")) else { return "never".to_owned() };
    let Ok(then) = time.parse::<Timestamp>() else { return "unknown".to_owned() };
    // Clocks differ: a time in the future is shown as now.
    in_one_unit(now.as_second().saturating_sub(then.as_second()).max(0))
}

/// Time from `now` to `time` (RFC 3339). `None` when it has passed.
pub(crate) fn until(time: &str, now: Timestamp) -> Option<String> {
    let Ok(then) = time.parse::<Timestamp>() else { return Some("unknown".to_owned()) };
    let seconds = then.as_second().saturating_sub(now.as_second());
    (seconds > 0).then(|| in_one_unit(seconds))
}

fn in_one_unit(seconds: i64) -> String {
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
    fn shows_one_unit() {
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

    #[test]
    fn time_until_an_event_ends_with_it() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (time, left) in [
            ("2026-11-15T12:00:05Z", Some("5s")),
            ("2026-11-16T11:59:00Z", Some("23h")),
            ("2026-11-15T12:00:00Z", None),
            ("2026-11-15T11:00:00Z", None),
            ("tomorrow", Some("unknown")),
        ] {
            assert_eq!(until(time, now).as_deref(), left, "{time}");
        }
    }
}
