//! Whether requests of a match never get there, because matches before it take them all.

use std::collections::BTreeMap;

use kodiak_model::Choice;

use super::matches::{first_of_each, path_type};
use crate::header::{HeaderMatch, HeaderMatchType};
use crate::mesh_http_route::{Match, Method, PathMatchType, QueryParamsMatch};

/// Conditions of a match, as its route has them.
#[derive(Debug, Clone)]
pub(super) struct Conditions<'a> {
    path: Path<'a>,
    method: Option<&'a Choice<Method>>,
    /// By name.
    headers: BTreeMap<&'a str, Header<'a>>,
    query_params: Vec<&'a QueryParamsMatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path<'a> {
    Any,
    Exact(&'a str),
    Prefix(&'a str),
    Regex(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Regex(&'a str),
    Present,
    Absent,
}

impl<'a> Conditions<'a> {
    /// `None` for a match that another version wrote, which has no route.
    pub(super) fn of(one: &'a Match) -> Option<Self> {
        let Match { path, method, query_params, headers } = one;
        let path = match path {
            None => Path::Any,
            Some(path) => match path_type(path)? {
                PathMatchType::PathPrefix if path.value == "/" => Path::Any,
                PathMatchType::Exact => Path::Exact(&path.value),
                PathMatchType::PathPrefix => Path::Prefix(&path.value),
                PathMatchType::RegularExpression => Path::Regex(&path.value),
            },
        };
        let headers = first_of_each(headers.iter().flatten(), |header| &header.name);
        Some(Self {
            path,
            method: method.as_ref(),
            headers: headers.into_iter().map(|header| (header.name.as_str(), Header::of(header))).collect(),
            query_params: first_of_each(query_params.iter().flatten(), |param| &param.name),
        })
    }

    /// Whether each of its requests matches one of these. Rather false than wrong: only the presence of headers is told
    /// apart, no other combination of conditions.
    pub(super) fn is_taken(&self, earlier: &[Self]) -> bool {
        if earlier.iter().any(|one| one.covers(self)) {
            return true;
        }
        let may_be_absent = |one: &Self| {
            let absent = one.headers.iter().filter(|(_, header)| **header == Header::Absent);
            absent.map(|(name, _)| *name).find(|name| !self.headers.contains_key(name))
        };
        let with = |name, header| {
            let mut headers = self.headers.clone();
            headers.insert(name, header);
            Self { headers, ..self.clone() }
        };
        earlier.iter().find_map(may_be_absent).is_some_and(|name| {
            [Header::Present, Header::Absent].into_iter().all(|header| with(name, header).is_taken(earlier))
        })
    }

    /// Whether it matches every request that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        let takes =
            |(name, wanted): (&&str, &Header<'_>)| other.headers.get(name).is_some_and(|own| wanted.covers(*own));
        self.path.covers(other.path)
            && self.method.is_none_or(|method| other.method == Some(method))
            && self.headers.iter().all(takes)
            && self.query_params.iter().all(|param| other.query_params.contains(param))
    }
}

impl Path<'_> {
    fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Prefix(prefix), Self::Exact(path) | Self::Prefix(path)) => {
                path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            _ => self == other,
        }
    }
}

impl<'a> Header<'a> {
    fn of(written: &'a HeaderMatch) -> Self {
        let value = written.value.as_str();
        match written.match_type.as_ref().and_then(Choice::known).unwrap_or(HeaderMatchType::Exact) {
            HeaderMatchType::Exact => Self::Exact(value),
            HeaderMatchType::RegularExpression => Self::Regex(value),
            HeaderMatchType::Absent => Self::Absent,
            HeaderMatchType::Prefix if !value.is_empty() => Self::Prefix(value),
            HeaderMatchType::Present | HeaderMatchType::Prefix => Self::Present,
        }
    }

    fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Present, other) => other != Self::Absent,
            (Self::Prefix(prefix), Self::Exact(value) | Self::Prefix(value)) => value.starts_with(prefix),
            _ => self == other,
        }
    }
}
