//! Variables in files: `{{ zone }}` with `-v zone=east`.
//!
//! Only plain names are filled in. `{{ .Name }}` and `{{ label "x" }}` belong to the resources themselves
//! (HostnameGenerator, MeshIdentity) and stay. Unlike with kumactl, a variable that is not given is an error.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::yaml::Mark;

pub(super) type Variables = BTreeMap<String, String>;

/// What is wrong with a template, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) mark: Mark,
    pub(super) message: String,
}

/// Fills in all variables; `used` learns their names.
pub(super) fn fill(text: &str, variables: &Variables, used: &mut BTreeSet<String>) -> Result<String, Vec<Fault>> {
    let mut filled = String::with_capacity(text.len());
    let mut faults = Vec::new();
    for (n, line) in text.split_inclusive('\n').enumerate() {
        let mut rest = line;
        while let Some(start) = rest.find("{{") {
            let (before, tag) = rest.split_at(start);
            filled.push_str(before);
            let column = line.len() - tag.len();
            let mut fault = |length: usize, message: String| {
                let column = line[..column].chars().count() + 1;
                faults.push(Fault { mark: Mark { line: n + 1, column, length }, message });
            };
            if tag.starts_with("{{{") {
                fault(3, "triple braces are not supported; write {{ name }}".to_owned());
                rest = tag.trim_start_matches('{');
                continue;
            }
            let Some(end) = tag.find("}}") else {
                rest = tag;
                break;
            };
            let (whole, after) = tag.split_at(end + 2);
            rest = after;
            match Tag::read(&whole[2..end]) {
                Tag::NotOurs => filled.push_str(whole),
                Tag::Section => fault(
                    whole.chars().count(),
                    "sections, partials and comments of mustache are not supported; write {{ name }}".to_owned(),
                ),
                Tag::Variable(name) => match variables.get(name) {
                    Some(value) => {
                        filled.push_str(value);
                        used.insert(name.to_owned());
                    }
                    None => fault(whole.chars().count(), not_given(name, variables)),
                },
            }
        }
        filled.push_str(rest);
    }
    if faults.is_empty() { Ok(filled) } else { Err(faults) }
}

enum Tag<'a> {
    Variable(&'a str),
    /// `{{# list }}` and the like.
    Section,
    /// Part of the resource.
    NotOurs,
}

impl<'a> Tag<'a> {
    fn read(inside: &'a str) -> Self {
        let name = inside.trim();
        let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.starts_with(['#', '^', '/', '>', '!', '&']) {
            Self::Section
        } else if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(word) {
            Self::Variable(name)
        } else {
            Self::NotOurs
        }
    }
}

fn not_given(name: &str, variables: &Variables) -> String {
    match super::nearest(name, variables.keys().map(String::as_str)) {
        Some(near) => format!("the variable {name:?} is not given; did you mean {near:?}, or to pass -v {name}=VALUE?"),
        None => format!("the variable {name:?} is not given; pass -v {name}=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let variables = [("zone", "east"), ("app.name", "web"), ("ip", "10.0.0.1")];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        fill(text, &variables, &mut BTreeSet::new()).map_err(|faults| {
            let show = |fault: &Fault| {
                let Mark { line, column, length } = fault.mark;
                format!("{line}:{column}+{length} {}", fault.message)
            };
            faults.iter().map(show).collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, expected) in [
            ("name: {{ zone }}", "name: east"),
            ("name: {{zone}}-{{ app.name }}\nip: {{ip}}\n", "name: east-web\nip: 10.0.0.1\n"),
            ("{{  zone\t}}", "east"),
            ("no variables", "no variables"),
            ("", ""),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_belongs_to_the_resource_stays() {
        for text in [
            "template: '{{ .DisplayName }}.{{ .Zone }}.mesh.local'",
            "path: '/{{ label \"kuma.io/workload\" }}'",
            "go: '{{- .Name -}}' '{{ printf \"%s\" .X }}'",
            "flow: {a: {b: {c: 1}}}",
            "open: '{{ zone'",
            "next: '{{\nzone }}'",
            "empty: {{}} {{ }}",
        ] {
            assert_eq!(filled(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn every_fault_has_its_place() {
        assert_eq!(
            filled("a: {{ zon }}\nbé: {{ other }}{{ zone }}{{# list }}\nc: {{{ zone }}}\n").unwrap_err(),
            "1:4+9 the variable \"zon\" is not given; did you mean \"zone\", or to pass -v zon=VALUE?\n\
             2:5+11 the variable \"other\" is not given; pass -v other=VALUE\n\
             2:26+11 sections, partials and comments of mustache are not supported; write {{ name }}\n\
             3:4+3 triple braces are not supported; write {{ name }}"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_filled_or_refused(text in r"([{} \n#.a-zé]|zone|ip){0,40}") {
            if let Ok(filled) = filled(&text) {
                proptest::prop_assert_eq!(filled.lines().count(), text.lines().count());
            }
            if !text.contains("{{") {
                proptest::prop_assert_eq!(filled(&text), Ok(text));
            }
        }
    }

    #[test]
    fn values_are_not_filled_in_again() {
        let variables = [("a".to_owned(), "{{ b }}".to_owned())].into();
        let mut used = BTreeSet::new();
        assert_eq!(fill("{{ a }}", &variables, &mut used).as_deref(), Ok("{{ b }}"));
        assert_eq!(used.into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
