//! Routes by their documentation: the rule that matches a request, and its backends.

use std::cmp::Reverse;

use kodiak_rules::route_hash;
use kodiak_testkit::simulate::Request;
use regex_lite::Regex;
use serde_json::{Value, json};

use kodiak_oracle::meshes::Tags;

/// The rule that matches a request.
pub(super) struct Taken {
    /// Route name that policies use.
    pub(super) name: String,
    /// The destination itself when missing.
    pub(super) to: Option<Tags>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Split {
    /// No backends are listed.
    Own,
    To(Tags),
    /// No backend exists.
    Nobody,
}

/// The most specific match of the request, of a rule with an existing backend. `None` when the catch-all rule has none.
pub(super) fn take(rules: &Value, speaks_http: impl Fn(&str) -> bool, request: &Request) -> Option<Taken> {
    let everything = json!({ "path": { "type": "PathPrefix", "value": "/" } });
    let rules = || rules.as_array().into_iter().flatten();
    let each = |rule| list(rule, "matches").map(move |one| (rule, one));
    let mut matches: Vec<(&Value, &Value)> = rules().flat_map(each).collect();
    matches.sort_by_key(|(_, one)| rank(one));
    for (rule, _) in matches.iter().filter(|(_, one)| describes(one, request)) {
        let name = route_hash(&rule["matches"]);
        match split(&rule["default"]["backendRefs"], &speaks_http, request.dice) {
            Split::Own => return Some(Taken { name, to: None }),
            Split::To(tags) => return Some(Taken { name, to: Some(tags) }),
            Split::Nobody => (),
        }
    }
    let stood_in = matches.iter().any(|(_, one)| **one == everything);
    (!stood_in).then(|| Taken { name: route_hash(&json!([everything])), to: None })
}

/// By weight, in the order of the list.
pub(super) fn split(refs: &Value, usable: impl Fn(&str) -> bool, dice: u64) -> Split {
    let Some(refs) = refs.as_array().filter(|refs| !refs.is_empty()) else { return Split::Own };
    let parts = refs.iter().filter(|one| usable(one["name"].as_str().unwrap()));
    let tickets = parts.flat_map(|one| (0..one["weight"].as_u64().unwrap()).map(move |_| one));
    let tickets: Vec<&Value> = tickets.collect();
    let Some(drawn) = dice.checked_rem(tickets.len() as u64) else { return Split::Nobody };
    let drawn = tickets[usize::try_from(drawn).unwrap()];
    let more = drawn["tags"].as_object().into_iter().flatten();
    let mut tags: Tags = more.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
    tags.insert("kuma.io/service".to_owned(), drawn["name"].as_str().unwrap().to_owned());
    Split::To(tags)
}

/// Exact paths, then prefixes, then regular expressions, longer ones first, then none; a method, then more headers.
fn rank(one: &Value) -> (u8, Reverse<usize>, bool, Reverse<usize>) {
    let path = &one["path"];
    let length = path["value"].as_str().map_or(0, str::len);
    let (kind, length) = match path["type"].as_str() {
        Some("Exact") => (0, 0),
        Some("PathPrefix") => (1, length),
        Some("RegularExpression") => (2, length),
        _ => (3, 0),
    };
    (kind, Reverse(length), one["method"].is_null(), Reverse(list(one, "headers").count()))
}

fn describes(one: &Value, request: &Request) -> bool {
    let value = one["path"]["value"].as_str().unwrap_or_default();
    let path = match one["path"]["type"].as_str() {
        Some("Exact") => request.path == value,
        Some("PathPrefix") => {
            value == "/"
                || request.path.strip_prefix(value).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Some("RegularExpression") => Regex::new(&format!("^(?:{value})$")).unwrap().is_match(&request.path),
        _ => true,
    };
    let method = one["method"].as_str().is_none_or(|method| method == request.method);
    path && method && list(one, "headers").all(|header| has(header, request))
}

fn has(header: &Value, request: &Request) -> bool {
    let sent = request.headers.iter().find(|(name, _)| header["name"] == **name).map(|(_, value)| value.as_str());
    let written = header["value"].as_str().unwrap_or_default();
    match header["type"].as_str() {
        Some("Present") => sent.is_some(),
        Some("Absent") => sent.is_none(),
        Some("Prefix") => sent.is_some_and(|sent| sent.starts_with(written)),
        _ => sent == Some(written),
    }
}

fn list<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    of[field].as_array().into_iter().flatten()
}
