//! Regular expressions of users, on their way to Envoy.
//!
//! **Invariant:** no text of a user becomes a `RegexMatcher` but through here. One that Envoy cannot compile would make it
//! reject a whole listener.

use kodiak_envoy::envoy::r#type::matcher::v3::RegexMatcher;
use kodiak_model::{FieldPath, Problems, re2};

/// A class without characters.
const NOTHING: &str = r"[^\x00-\xff]";

/// To be asked when a policy is written.
pub(crate) fn check(expression: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Err(reason) = re2::check(expression) {
        problems.add(at, format!("is not a regular expression that Envoy (RE2) accepts: {reason}"));
    }
}

/// What was stored before it was checked, and cannot be compiled, matches nothing.
pub(crate) fn matcher(expression: &str) -> RegexMatcher {
    let regex = if re2::check(expression).is_ok() { expression } else { NOTHING };
    RegexMatcher { regex: regex.to_owned(), ..RegexMatcher::default() }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn what_envoy_cannot_compile_matches_nothing() {
        assert_eq!(matcher("/a.*").regex, "/a.*");
        assert_eq!(matcher("(?=a)").regex, NOTHING);
        assert!(re2::check(NOTHING).is_ok());
    }

    /// Expressions that are put together here from escaped text are no text of users.
    const OWN: [&str; 3] =
        ["mesh_traffic_permission/envoy.rs", "mesh_timeout/callers.rs", "mesh_http_route/envoy/filters.rs"];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it reads the sources of this crate")]
    fn matchers_are_made_in_one_place() {
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
