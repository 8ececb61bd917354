//! Body of a PUT: the first byte selects the kind, the rest is JSON.
//!
//! Kind, mesh and name, which come from the request path, are filled in, so that most inputs reach the spec.
#![no_main]

use kodiak_kinds::{Kind, kinds};
use kodiak_model::Shape;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|data: &[u8]| {
    let Some((first, json)) = data.split_first() else { return };
    let Some(kind) = kinds().iter().nth(usize::from(*first) % kinds().iter().count()) else { return };
    let Ok(Value::Object(body)) = serde_json::from_slice(json) else { return };
    kodiak_fuzz::check_twice(Value::Object(document(kind, body)));
});

fn document(kind: &Kind, body: Map<String, Value>) -> Map<String, Value> {
    let mut document = match kind.shape {
        Shape::Plugin if !body.contains_key("spec") => Map::from_iter([("spec".to_owned(), Value::Object(body))]),
        Shape::Plugin | Shape::Legacy => body,
    };
    for (field, value) in [("type", kind.name), ("mesh", "default"), ("name", "a")] {
        document.entry(field).or_insert_with(|| Value::from(value));
    }
    document
}
