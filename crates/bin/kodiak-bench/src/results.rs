//! Results as a table and as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// In the order of output.
#[derive(Default)]
pub(super) struct Results(Vec<Row>);

struct Row {
    /// In JSON. `change.p50_ms` is `p50_ms` in the object `change`.
    key: String,
    what: String,
    value: f64,
}

impl Results {
    pub(super) fn add(&mut self, key: impl Into<String>, what: impl Into<String>, value: f64) {
        self.0.push(Row { key: key.into(), what: what.into(), value });
    }

    /// With `as_json`, the last line is one JSON object.
    pub(super) fn show(&self, as_json: bool) {
        for Row { what, value, .. } in &self.0 {
            let digits = if value.fract() == 0.0 { 0 } else { 3 };
            println!("{what:48} {value:>14.digits$}");
        }
        if as_json {
            println!("{}", self.json());
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut object = Map::new();
        for Row { key, value, .. } in &self.0 {
            let number = if value.fract() == 0.0 { json!(whole(*value)) } else { json!(value) };
            match key.split_once('.') {
                None => drop(object.insert(key.clone(), number)),
                Some((outer, inner)) => object.entry(outer).or_insert_with(|| json!({}))[inner] = number,
            }
        }
        Value::Object(object)
    }
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "counts are far below 2^53")]
fn whole(count: f64) -> i64 {
    count as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keys_with_a_dot_in_an_object() {
        let mut results = Results::default();
        results.add("proxies", "proxies", 7.0);
        results.add("change.p50_ms", "median", 0.5);
        results.add("change.woken", "woken", 7.0);
        assert_eq!(results.json(), json!({ "proxies": 7, "change": { "p50_ms": 0.5, "woken": 7 } }));
    }
}
