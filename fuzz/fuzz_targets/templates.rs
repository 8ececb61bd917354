//! Templates of hostnames and SPIFFE IDs, and regular expressions.
#![no_main]

use std::collections::BTreeMap;

use kodiak_model::{
    go_template::Template,
    kinds::{hostname_generator, mesh_identity},
    re2,
};
use libfuzzer_sys::fuzz_target;

/// Value of each field and label.
const VALUE: &str = "value-of-a-field";

fuzz_target!(|text: &str| {
    let _ = re2::check(text);
    render(text, &hostname_generator::FIELDS, &hostname_generator::FUNCTIONS);
    render(text, &mesh_identity::PATH_FIELDS, &mesh_identity::FUNCTIONS);
    render(text, &mesh_identity::TRUST_DOMAIN_FIELDS, &mesh_identity::FUNCTIONS);
});

fn render(text: &str, fields: &[&str], functions: &[&str]) {
    let Ok(template) = Template::parse(text, functions) else { return };
    let fields: BTreeMap<&str, String> = fields.iter().map(|field| (*field, VALUE.to_owned())).collect();
    let Ok(rendered) = template.render(&fields, &|_, _| Ok(VALUE.to_owned())) else { return };
    // A character renders to a value at most; `printf` and similar functions quote it.
    assert!(rendered.len() <= text.len() * VALUE.len() * 8, "{} bytes from {}", rendered.len(), text.len());
}
