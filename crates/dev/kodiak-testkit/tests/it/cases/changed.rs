//! Readable difference between two configurations.
//!
//! Each resource that differs has a list of places: `at` a field, `from` the old value `to` the new one; in lists,
//! values that are `removed` and `inserted`. A resource that only one configuration has is `added` as a whole, or
//! `removed`.

use serde_json::{Map, Value, json};

/// Of one type, by name.
pub(super) fn resources(before: &Value, after: &Value, shown: impl Fn(&str) -> bool) -> Map<String, Value> {
    let (before, after) = (by_name(before), by_name(after));
    let mut changed = Map::new();
    let mut names: Vec<&String> = before.keys().chain(after.keys()).filter(|name| shown(name)).collect();
    names.sort();
    names.dedup();
    for name in names {
        match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) if old == new => (),
            (Some(old), Some(new)) => {
                let mut places = Vec::new();
                values(old, new, "", &mut places);
                changed.insert(name.clone(), places.into());
            }
            (None, Some(new)) => drop(changed.insert(name.clone(), json!({ "added": new }))),
            (_, None) => drop(changed.insert(name.clone(), json!("removed"))),
        }
    }
    changed
}

fn by_name(resources: &Value) -> Map<String, Value> {
    resources.as_object().cloned().unwrap_or_default()
}

fn values(before: &Value, after: &Value, path: &str, places: &mut Vec<Value>) {
    match (before, after) {
        _ if before == after => (),
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = below(path, key);
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => values(old, new, &path, places),
                    (Some(old), None) => places.push(json!({ "at": path, "from": old })),
                    (None, new) => places.push(json!({ "at": path, "to": new })),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => lists(old, new, path, places),
        _ => places.push(json!({ "at": path, "from": before, "to": after })),
    }
}

/// Compares equal items of both lists recursively; all others are removed or inserted. Indexes are those of the new
/// list.
fn lists(before: &[Value], after: &[Value], path: &str, places: &mut Vec<Value>) {
    let (mut old, mut new) = (0, 0);
    let pairs = pairs(before, after);
    for (old_end, new_end) in pairs.into_iter().chain([(before.len(), after.len())]) {
        let (removed, inserted) = (&before[old..old_end], &after[new..new_end]);
        let mut place = Map::from_iter([("at".to_owned(), json!(below(path, &new.to_string())))]);
        if !removed.is_empty() {
            place.insert("removed".to_owned(), removed.iter().map(brief).collect());
        }
        if !inserted.is_empty() {
            place.insert("inserted".to_owned(), inserted.into());
        }
        if place.len() > 1 {
            places.push(place.into());
        }
        if let (Some(same), Some(other)) = (before.get(old_end), after.get(new_end)) {
            values(same, other, &below(path, &new_end.to_string()), places);
        }
        (old, new) = (old_end + 1, new_end + 1);
    }
}

/// The name of a removed item.
fn brief(gone: &Value) -> Value {
    let mut known_by = ["/name", "/locality", "/endpoint/address/socketAddress"].into_iter();
    known_by.find_map(|path| gone.pointer(path)).unwrap_or(gone).clone()
}

/// Index pairs of a longest common subsequence.
fn pairs(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
    for old in (0..before.len()).rev() {
        for new in (0..after.len()).rev() {
            let apart = lengths[old + 1][new].max(lengths[old][new + 1]);
            let together = usize::from(same(&before[old], &after[new])) + lengths[old + 1][new + 1];
            lengths[old][new] = apart.max(together);
        }
    }
    let (mut old, mut new, mut places) = (0, 0, Vec::new());
    while old < before.len() && new < after.len() {
        // Later in the new list if possible, so that insertions come before it.
        if lengths[old][new] == lengths[old][new + 1] {
            new += 1;
        } else if lengths[old][new] == lengths[old + 1][new] {
            old += 1;
        } else {
            places.push((old, new));
            (old, new) = (old + 1, new + 1);
        }
    }
    places
}

/// Items are identified by name or locality; those without are all equal.
fn same(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return one == other };
    one.get("name") == other.get("name") && one.get("locality") == other.get("locality")
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") }
}
