//! Parsers for the values of arguments.

use kodiak_model::GoDuration;

/// `KEY=VALUE`; the value may hold more equals signs.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        Some(_) | None => Err("write KEY=VALUE".to_owned()),
    }
}

pub fn duration(text: &str) -> Result<GoDuration, String> {
    match GoDuration::parse(text) {
        Ok(duration) if !duration.is_negative() => Ok(duration),
        Ok(_) | Err(_) => Err("write a duration, for example 30s or 1m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pairs_and_durations() {
        assert_eq!(key_value("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
        assert!(duration("1m").is_ok() && duration("-1s").is_err() && duration("soon").is_err());
    }
}
