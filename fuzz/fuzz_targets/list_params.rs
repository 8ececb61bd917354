//! The query of a list: bounded, whatever it says.
#![no_main]

use kodiak_api::ListQuery;
use libfuzzer_sys::fuzz_target;

/// The largest page, and the most filters, that a client may ask for.
const MAX_SIZE: usize = 1000;
const MAX_FILTERS: usize = 32;

fuzz_target!(|query: &str| {
    let Ok(list) = ListQuery::parse(query) else { return };
    assert!(list.size <= MAX_SIZE, "a page of {}", list.size);
    assert!(list.labels.len() + list.tags.len() <= MAX_FILTERS, "{} filters", list.labels.len() + list.tags.len());
    // Refused or not, but never a panic.
    let _ = list.check("meshes");
});
