//! User YAML: parsed, validated, and stable once it is accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(documents) = kodiak_model::yaml::parse(text) else { return };
    for document in documents {
        kodiak_fuzz::check_twice(document.value);
    }
});
