//! Tags of proxies, and selectors over them.

use std::collections::BTreeMap;

use crate::{FieldPath, Problems};

pub const SERVICE: &str = "kuma.io/service";
pub const PROTOCOL: &str = "kuma.io/protocol";
pub const ZONE: &str = "kuma.io/zone";

const NAME_TEXT: &str = "tag name must consist of alphanumeric characters, dots, dashes, slashes and underscores";
const VALUE_TEXT: &str = "tag value must consist of alphanumeric characters, dots, dashes and underscores";

/// Tags of an inbound, or of a subset of proxies.
pub fn check_values(tags: &BTreeMap<String, String>, at: &FieldPath<'_>, problems: &mut Problems) {
    check(tags, at, problems, |value| value.bytes().all(is_value_byte));
}

/// Tags of a selector: values may contain slashes, or be `*` for any.
pub fn check_selector(tags: &BTreeMap<String, String>, at: &FieldPath<'_>, problems: &mut Problems) {
    check(tags, at, problems, |value| value == "*" || value.bytes().all(|b| is_value_byte(b) || b == b'/'));
}

fn check(
    tags: &BTreeMap<String, String>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
    is_value: impl Fn(&str) -> bool,
) {
    for (name, value) in tags {
        if name.is_empty() {
            problems.add(at, "tag name must be non-empty");
        }
        let at = at.key(name);
        if !name.bytes().all(|b| is_value_byte(b) || b == b'/') {
            problems.add(&at, NAME_TEXT);
        }
        if value.is_empty() {
            problems.add(&at, "tag value must be non-empty");
        } else if !is_value(value) {
            problems.add(&at, VALUE_TEXT);
        }
    }
}

/// Whether a proxy can have this value of a tag.
pub(crate) fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(is_value_byte)
}

fn is_value_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b".-_:".contains(&b)
}
