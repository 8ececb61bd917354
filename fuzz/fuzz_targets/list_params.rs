//! Query parameters of a list: every value is bounded.
#![no_main]

use kodiak_api::ListQuery;
use libfuzzer_sys::fuzz_target;

/// Maximum page size and number of filters of a request.
const MAX_SIZE: usize = 1000;
const MAX_FILTERS: usize = 32;

fuzz_target!(|query: &str| {
    let Ok(list) = ListQuery::parse(query) else { return };
    assert!(list.size <= MAX_SIZE, "a page of {}", list.size);
    assert!(list.labels.len() + list.tags.len() <= MAX_FILTERS, "{} filters", list.labels.len() + list.tags.len());
    // Rejected or not, but never a panic.
    let _ = list.check("meshes");
});
