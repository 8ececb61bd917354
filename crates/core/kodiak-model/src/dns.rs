//! Name rules of DNS and of Kubernetes labels, with Kubernetes' error texts.
//!
//! Every function returns the list of violations; empty means valid.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const DNS_1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1123_SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD_SUBDOMAIN: &str = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

pub fn dns_1035_label(value: &str) -> Vec<String> {
    let fits = is_dns_1123_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase());
    gather(value, LABEL_MAX, fits, DNS_1035)
}

pub fn dns_1123_label(value: &str) -> Vec<String> {
    gather(value, LABEL_MAX, is_dns_1123_label(value), DNS_1123_LABEL)
}

pub fn dns_1123_subdomain(value: &str) -> Vec<String> {
    gather(value, SUBDOMAIN_MAX, is_dns_1123_subdomain(value), DNS_1123_SUBDOMAIN)
}

/// `*.example.com`
pub fn wildcard_subdomain(value: &str) -> Vec<String> {
    let fits = value.strip_prefix("*.").is_some_and(is_dns_1123_subdomain);
    gather(value, SUBDOMAIN_MAX, fits, WILDCARD_SUBDOMAIN)
}

/// Key of a label: `name` or `prefix.example/name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut parts = value.split('/');
    let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next().is_some());
    if more {
        return vec![format!(
            "a qualified name {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                found.push("prefix part must be non-empty".to_owned());
            } else {
                found.extend(dns_1123_subdomain(first).into_iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
    };
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        found.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    if !is_label_word(name) {
        found.push(format!("name part {QUALIFIED_NAME}"));
    }
    found
}

pub fn label_value(value: &str) -> Vec<String> {
    gather(value, LABEL_MAX, value.is_empty() || is_label_word(value), LABEL_VALUE)
}

pub fn is_dns_1123_label(value: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = value.as_bytes();
    bytes.first().copied().is_some_and(inside)
        && bytes.last().copied().is_some_and(inside)
        && bytes.iter().all(|&b| inside(b) || b == b'-')
}

pub fn is_dns_1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns_1123_label)
}

fn is_label_word(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn gather(value: &str, max: usize, fits: bool, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if value.len() > max {
        found.push(too_long(max));
    }
    if !fits {
        found.push(text.to_owned());
    }
    found
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_start_with_a_letter_only_in_dns_1035() {
        assert!(dns_1035_label("my-name").is_empty());
        assert_eq!(dns_1035_label("1abc"), [DNS_1035]);
        assert!(dns_1123_label("1abc").is_empty());
        assert_eq!(dns_1035_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn subdomains_have_no_empty_label() {
        assert!(dns_1123_subdomain("a.b-c.d").is_empty());
        for bad in ["", ".a", "a.", "a..b", "A", "a_b", "-a", "a-"] {
            assert_eq!(dns_1123_subdomain(bad), [DNS_1123_SUBDOMAIN], "{bad}");
        }
        assert!(wildcard_subdomain("*.example.com").is_empty());
        assert!(!wildcard_subdomain("*w.example.com").is_empty());
    }

    #[test]
    fn label_keys_may_have_one_prefix() {
        assert!(qualified_name("kuma.io/service").is_empty());
        assert!(qualified_name("version").is_empty());
        assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert!(!qualified_name("").is_empty());
    }
}
