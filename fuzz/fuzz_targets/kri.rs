//! KRIs: parsing and printing round-trip.
#![no_main]

use kodiak_kinds::kinds;
use kodiak_model::Kri;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(kri) = Kri::parse(kinds(), text) else { return };
    let again = Kri::parse(kinds(), &kri.to_string()).expect("what prints itself can be read");
    assert_eq!(kri, again);
});
