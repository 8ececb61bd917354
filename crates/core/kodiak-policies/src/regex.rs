//! User-written regular expressions.
//!
//! **Invariant:** every `RegexMatcher` from user text is created here. Envoy rejects a whole listener for an expression
//! that it cannot compile.

use kodiak_envoy::envoy::r#type::matcher::v3::RegexMatcher;
use kodiak_model::{FieldPath, Problems, re2};

/// An empty character class, which matches nothing.
const NOTHING: &str = r"[^\x00-\xff]";

/// Called when a policy is validated.
pub(crate) fn check(expression: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Err(reason) = re2::check(expression) {
        problems.add(at, format!("is not a regular expression that Envoy (RE2) accepts: {reason}"));
    }
}

/// An invalid expression that was stored before expressions were validated matches nothing.
pub(crate) fn matcher(expression: &str) -> RegexMatcher {
    let regex = if re2::check(expression).is_ok() { expression } else { NOTHING };
    RegexMatcher { regex: regex.to_owned(), ..RegexMatcher::default() }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn invalid_expressions_match_nothing() {
        assert_eq!(matcher("/a.*").regex, "/a.*");
        assert_eq!(matcher("(?=a)").regex, NOTHING);
        assert!(re2::check(NOTHING).is_ok());
    }

    /// Expressions that this crate builds from escaped text.
    const OWN: [&str; 4] = [
        "callers.rs",
        "mesh_fault_injection/matcher.rs",
        "mesh_http_route/envoy/filters.rs",
        "mesh_traffic_permission/envoy.rs",
    ];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it reads the sources of this crate")]
    fn regex_matchers_are_created_in_one_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![root.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                let source = fs::read_to_string(&path).unwrap_or_default();
                let is_source = path.extension().is_some_and(|extension| extension == "rs");
                if is_source && !name.contains("tests") && source.contains("RegexMatcher {") {
                    found.push(name);
                }
            }
        }
        found.retain(|name| name != "regex.rs" && !OWN.contains(&name.as_str()));
        assert!(found.is_empty(), "these make a RegexMatcher of their own, use regex::matcher: {found:?}");
    }
}
