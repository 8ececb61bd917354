//! Validation of matches.

use std::collections::BTreeSet;

use kodiak_model::{FieldPath, Problems};

use crate::{
    header::HeaderMatch,
    mesh_http_route::{Match, PathMatch, PathMatchType, QueryParamsMatch, QueryParamsMatchType},
    regex,
};

pub(super) fn check(one: &Match, at: &FieldPath<'_>, problems: &mut Problems) {
    let Match { path, method, query_params, headers } = one;
    if let Some(path) = path {
        check_path(path, &at.field("path"), problems);
    }
    if let Some(method) = method {
        method.check(at, "method", problems);
    }
    check_query_params(query_params.as_deref().unwrap_or_default(), &at.field("queryParams"), problems);
    let at = at.field("headers");
    for (n, header) in headers.iter().flatten().enumerate() {
        check_header(header, &at.index(n), problems);
    }
}

fn check_path(path: &PathMatch, at: &FieldPath<'_>, problems: &mut Problems) {
    let PathMatch { value, match_type } = path;
    let at_value = at.field("value");
    let absolute = value.starts_with('/');
    match match_type.as_ref().and_then(|one| one.check(at, "type", problems)) {
        Some(PathMatchType::PathPrefix) => {
            if value.ends_with('/') && value != "/" {
                problems.add(
                    &at_value,
                    "does not need a trailing slash because only a `/`-separated prefix or an entire path is matched",
                );
            }
            problems.require(absolute, &at_value, "must be an absolute path");
        }
        Some(PathMatchType::Exact) => problems.require(absolute, &at_value, "must be an absolute path"),
        Some(PathMatchType::RegularExpression) => regex::check(value, &at_value, problems),
        None => (),
    }
}

fn check_query_params(params: &[QueryParamsMatch], at: &FieldPath<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (n, QueryParamsMatch { match_type, name, value }) in params.iter().enumerate() {
        let at = at.index(n);
        if let Some(match_type) = match_type {
            let checked = match_type.check(&at, "type", problems);
            if checked == Some(QueryParamsMatchType::RegularExpression) {
                regex::check(value, &at.field("value"), problems);
            }
        }
        if !seen.insert(name.as_str()) {
            problems.add(&at.field("name"), format!("multiple entries for name {name}"));
        }
    }
}

fn check_header(header: &HeaderMatch, at: &FieldPath<'_>, problems: &mut Problems) {
    header.check(at, problems);
    problems.require(!header.ignores_value() || header.value.is_empty(), &at.field("value"), "must not be defined");
}
