//! JSON patches (RFC 6902) between two documents, with a test before each removal.

use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operation {
    pub op: Op,
    pub path: String,
    pub value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Test,
    Remove,
    Add,
}

/// Operations that turn `before` into `after`, applied in order.
pub fn patch(before: &Value, after: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    values(before, after, "", &mut operations);
    operations
}

fn values(before: &Value, after: &Value, path: &str, operations: &mut Vec<Operation>) {
    match (before, after) {
        _ if before == after => (),
        (Value::Object(before), Value::Object(after)) => objects(before, after, path, operations),
        (Value::Array(before), Value::Array(after)) => lists(before, after, path, operations),
        _ => {
            remove(before, path.to_owned(), operations);
            add(after, path.to_owned(), operations);
        }
    }
}

fn objects(before: &Map<String, Value>, after: &Map<String, Value>, path: &str, operations: &mut Vec<Operation>) {
    for (key, old) in before {
        let path = below(path, key);
        match after.get(key) {
            Some(new) => values(old, new, &path, operations),
            None => remove(old, path, operations),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        add(new, below(path, key), operations);
    }
}

/// Keeps common items. Between them, compares objects and lists at the same position, and removes and adds the rest.
fn lists(before: &[Value], after: &[Value], path: &str, operations: &mut Vec<Operation>) {
    let (mut old, mut new) = (0, 0);
    let ends = common(before, after).into_iter().chain([(before.len(), after.len())]);
    for (old_end, new_end) in ends {
        while old < old_end && new < new_end && same_container(&before[old], &after[new]) {
            values(&before[old], &after[new], &below(path, &new.to_string()), operations);
            (old, new) = (old + 1, new + 1);
        }
        let at = below(path, &new.to_string());
        before[old..old_end].iter().for_each(|gone| remove(gone, at.clone(), operations));
        // Reversed, because each is inserted before the one added last.
        after[new..new_end].iter().rev().for_each(|come| add(come, at.clone(), operations));
        (old, new) = (old_end + 1, new_end + 1);
    }
}

fn same_container(one: &Value, other: &Value) -> bool {
    (one.is_object() && other.is_object()) || (one.is_array() && other.is_array())
}

/// Lists with more pairs of items are not compared in full: it would take too long, and nobody reads the result.
const MOST_PAIRS: usize = 1 << 20;

/// Positions of common items, in order: the common prefix and suffix, and between them a longest common subsequence
/// unless that part is too long.
fn common(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let (rest_before, rest_after) = (&before[start..], &after[start..]);
    let end = rest_before.iter().rev().zip(rest_after.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (rest_before.len() - end, rest_after.len() - end);
    let mut places: Vec<_> = (0..start).map(|place| (place, place)).collect();
    if old_end * new_end <= MOST_PAIRS {
        let between = longest(&rest_before[..old_end], &rest_after[..new_end]);
        places.extend(between.into_iter().map(|(old, new)| (start + old, start + new)));
    }
    places.extend((0..end).map(|place| (start + old_end + place, start + new_end + place)));
    places
}

/// Positions of a longest common subsequence.
fn longest(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
    for old in (0..before.len()).rev() {
        for new in (0..after.len()).rev() {
            lengths[old][new] = if before[old] == after[new] {
                lengths[old + 1][new + 1] + 1
            } else {
                lengths[old + 1][new].max(lengths[old][new + 1])
            };
        }
    }
    let (mut old, mut new, mut places) = (0, 0, Vec::new());
    while old < before.len() && new < after.len() {
        if before[old] == after[new] {
            places.push((old, new));
            (old, new) = (old + 1, new + 1);
        } else if lengths[old + 1][new] >= lengths[old][new + 1] {
            old += 1;
        } else {
            new += 1;
        }
    }
    places
}

fn remove(value: &Value, path: String, operations: &mut Vec<Operation>) {
    operations.push(Operation { op: Op::Test, path: path.clone(), value: value.clone() });
    operations.push(Operation { op: Op::Remove, path, value: value.clone() });
}

fn add(value: &Value, path: String, operations: &mut Vec<Operation>) {
    operations.push(Operation { op: Op::Add, path, value: value.clone() });
}

fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(before: &Value, after: &Value) -> Vec<String> {
        let text = |operation: &Operation| {
            let Operation { op, path, value } = operation;
            format!("{op:?} {path} {value}")
        };
        patch(before, after).iter().map(text).collect()
    }

    #[test]
    fn changed_values_are_removed_and_added() {
        let (before, after) = (json!({ "a/b": { "c": 1 } }), json!({ "a/b": { "c": 2, "d": 3 } }));
        assert_eq!(shown(&before, &after), ["Test /a~1b/c 1", "Remove /a~1b/c 1", "Add /a~1b/c 2", "Add /a~1b/d 3"]);
    }

    #[test]
    fn common_items_of_lists_are_kept() {
        let (before, after) = (json!([{ "n": 1 }, "x"]), json!([{ "n": 2 }, { "m": 1 }, { "m": 2 }, "x"]));
        assert_eq!(
            shown(&before, &after),
            ["Test /0/n 1", "Remove /0/n 1", "Add /0/n 2", "Add /1 {\"m\":2}", "Add /1 {\"m\":1}"]
        );
    }

    #[test]
    fn patches_of_lists_too_long_to_compare_are_still_correct() {
        let list = |step: usize| -> Value { (0..3000).map(|n| Value::from(n * step)).collect() };
        let (before, after) = (list(1), list(2));
        assert_eq!(apply(before.clone(), &patch(&before, &after)), after);
        // A single removal from a long list is found by prefix and suffix.
        let mut shorter = before.clone();
        shorter.as_array_mut().unwrap().remove(1500);
        assert_eq!(shown(&before, &shorter), ["Test /1500 1500", "Remove /1500 1500"]);
    }

    /// Applies a patch according to RFC 6902.
    fn apply(mut document: Value, operations: &[Operation]) -> Value {
        for Operation { op, path, value } in operations {
            let (parent, written) = path.rsplit_once('/').unwrap_or(("", ""));
            if path.is_empty() {
                match op {
                    Op::Add => document = value.clone(),
                    Op::Test => assert_eq!(&document, value),
                    Op::Remove => (),
                }
                continue;
            }
            let key = written.replace("~1", "/").replace("~0", "~");
            match (op, document.pointer_mut(parent).unwrap()) {
                (Op::Test, found) => {
                    let found =
                        found.as_object().map_or_else(|| &found[key.parse::<usize>().unwrap()], |map| &map[&key]);
                    assert_eq!(found, value);
                }
                (Op::Remove, Value::Object(map)) => drop(map.remove(&key).unwrap()),
                (Op::Add, Value::Object(map)) => drop(map.insert(key, value.clone())),
                (Op::Remove, Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
                (Op::Add, Value::Array(items)) => items.insert(key.parse().unwrap(), value.clone()),
                (_, other) => panic!("{other} has nothing below it"),
            }
        }
        document
    }

    fn a_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[ab/~]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn patch_turns_one_document_into_the_other(before in a_value(), after in a_value()) {
            let operations = patch(&before, &after);
            prop_assert_eq!(apply(before.clone(), &operations), after.clone());
            prop_assert_eq!(operations.is_empty(), before == after);
        }
    }
}
