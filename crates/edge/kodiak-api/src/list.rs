//! Query parameters of lists: paging and filters.

use kodiak_model::{FieldPath, Problems, ResourceKey, kinds::dataplane::Dataplane};
use kodiak_store::{Record, Snapshot};

use crate::ApiError;

const DEFAULT_SIZE: usize = 100;
const MAX_SIZE: usize = 1000;
/// Limits the cost of a request.
const MAX_FILTERS: usize = 32;

/// Parsed query of a list request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    pub size: usize,
    pub offset: usize,
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub tags: Vec<(String, String)>,
    pub gateway: Option<GatewayFilter>,
    pub service_types: Vec<String>,
    /// Unsupported filters, each with the reason.
    unsupported: Vec<(String, &'static str)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayFilter {
    Any,
    None,
    Builtin,
    Delegated,
}

const TITLE: &str = "Could not retrieve resources";

impl ListQuery {
    /// Parses the percent-encoded query of a URL.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let mut list = Self {
            size: DEFAULT_SIZE,
            offset: 0,
            name: String::new(),
            labels: Vec::new(),
            tags: Vec::new(),
            gateway: None,
            service_types: Vec::new(),
            unsupported: Vec::new(),
        };
        for (key, value) in pairs(query) {
            match key.as_str() {
                "size" => list.size = size(&value)?,
                "offset" => list.offset = offset(&value)?,
                "name" => list.name = value,
                "tag" => list.tags.push(tag(&value)),
                "gateway" => list.gateway = Some(gateway(&value)?),
                "type" => list.service_types = value.split(',').map(str::to_owned).collect(),
                _ => list.filter(&key, value),
            }
        }
        if list.labels.len() + list.tags.len() > MAX_FILTERS {
            return Err(ApiError::bad_request(format_args!("more than {MAX_FILTERS} filters")));
        }
        Ok(list)
    }

    fn filter(&mut self, key: &str, value: String) {
        let Some(filter) = key.strip_prefix("filter") else { return };
        let inside = filter.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match inside {
            Some(inside) if inside.contains("][") => {
                self.unsupported.push((key.to_owned(), "advanced filters are not supported"));
            }
            Some(inside) => match inside.strip_prefix("labels.") {
                Some(label) => self.labels.push((label.to_owned(), value)),
                None => self.unsupported.push((key.to_owned(), "filters are only supported on labels")),
            },
            None => (),
        }
    }

    /// Refuses unsupported filters; `path` is that of the route.
    pub fn check(&self, path: &str) -> Result<(), ApiError> {
        if self.unsupported.is_empty() {
            return Ok(());
        }
        let mut problems = Problems::default();
        for (filter, message) in &self.unsupported {
            problems.add(&FieldPath::ROOT.field(path).field(filter), *message);
        }
        Err(ApiError::invalid(TITLE, "Resource is not valid", problems))
    }

    pub fn matches(&self, snapshot: &Snapshot, record: &Record) -> bool {
        record.key.name.contains(self.name.as_str())
            && self.labels.iter().all(|(key, value)| record.labels.get(key) == Some(value))
            && self.matches_proxy(snapshot, &record.key)
    }

    fn matches_proxy(&self, snapshot: &Snapshot, key: &ResourceKey) -> bool {
        if &*key.kind != "Dataplane" || (self.tags.is_empty() && self.gateway.is_none()) {
            return true;
        }
        let proxy = snapshot.world().get(key).and_then(|resource| resource.proxy());
        let Some(dataplane) = proxy.map(|proxy| &proxy.dataplane) else { return false };
        let tags_match = self.tags.is_empty()
            || dataplane.tag_sets().any(|tags| {
                self.tags
                    .iter()
                    .all(|(key, value)| tags.get(key).is_some_and(|tag| value == "*" || tag.contains(value.as_str())))
            });
        tags_match && self.gateway.is_none_or(|filter| filter.matches(dataplane))
    }
}

impl GatewayFilter {
    fn matches(self, dataplane: &Dataplane) -> bool {
        match self {
            Self::Any => dataplane.gateway().is_some(),
            Self::None => dataplane.gateway().is_none(),
            Self::Builtin => dataplane.is_builtin_gateway(),
            Self::Delegated => dataplane.is_delegated_gateway(),
        }
    }
}

/// One page of the filtered items.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) total: usize,
    /// Offset of the next page, if there is one.
    pub(crate) next: Option<usize>,
}

impl<T> Page<T> {
    pub(crate) fn of(list: &ListQuery, all: impl Iterator<Item = T>) -> Self {
        let end = list.offset.saturating_add(list.size);
        let mut items = Vec::new();
        let mut total = 0;
        for (n, item) in all.enumerate() {
            total = n + 1;
            if n >= list.offset && n < end {
                items.push(item);
            }
        }
        Self { items, total, next: (total > end).then_some(end) }
    }
}

impl<T> Page<T> {
    /// The same page with other items.
    pub(crate) fn try_map<U, E>(self, of: impl FnMut(T) -> Result<U, E>) -> Result<Page<U>, E> {
        let Self { items, total, next } = self;
        Ok(Page { items: items.into_iter().map(of).collect::<Result<_, E>>()?, total, next })
    }
}

/// Query of the next page: the same with another offset, sorted by key as in Kuma.
pub(crate) fn next_query(query: &str, offset: usize) -> String {
    let mut parts: Vec<String> =
        query.split('&').filter(|part| !part.is_empty() && !part.starts_with("offset=")).map(str::to_owned).collect();
    parts.push(format!("offset={offset}"));
    parts.sort();
    parts.join("&")
}

fn size(text: &str) -> Result<usize, ApiError> {
    let refuse = |reason: String| {
        let mut problems = Problems::default();
        problems.add(&FieldPath::ROOT.field("size"), reason);
        Err(ApiError::invalid(TITLE, "Invalid page size", problems))
    };
    match text.parse::<i64>() {
        Err(_) => refuse("invalid format".to_owned()),
        Ok(size) if size < 1 => refuse("must be greater than 0".to_owned()),
        Ok(size) => match usize::try_from(size) {
            Ok(size) if size <= MAX_SIZE => Ok(size),
            _ => refuse(format!("invalid page size of {size}. Maximum page size is {MAX_SIZE}")),
        },
    }
}

fn offset(text: &str) -> Result<usize, ApiError> {
    let refuse = |reason: String| {
        let detail = format!("invalid: invalid offset: {reason}");
        Err(ApiError::new(axum::http::StatusCode::BAD_REQUEST, TITLE, detail))
    };
    match text.parse::<i64>() {
        Ok(offset) => match usize::try_from(offset) {
            Ok(offset) if offset <= i32::MAX.unsigned_abs() as usize => Ok(offset),
            Ok(_) => refuse("exceeds maximum value".to_owned()),
            Err(_) => refuse("must be non-negative".to_owned()),
        },
        Err(error) => {
            let reason = match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            refuse(format!("strconv.Atoi: parsing {text:?}: {reason}"))
        }
    }
}

fn tag(text: &str) -> (String, String) {
    let (key, value) = text.split_once(':').unwrap_or((text, "*"));
    (key.to_owned(), value.to_owned())
}

fn gateway(text: &str) -> Result<GatewayFilter, ApiError> {
    Ok(match text {
        "true" => GatewayFilter::Any,
        "false" => GatewayFilter::None,
        "builtin" => GatewayFilter::Builtin,
        "delegated" => GatewayFilter::Delegated,
        other => {
            let message = format!("shoud use `true`, `false`, 'builtin' or 'delegated' instead of {other}");
            return Err(ApiError::new(axum::http::StatusCode::BAD_REQUEST, "Bad Request", message));
        }
    })
}

/// Decoded keys and values of a query.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

/// Decodes percent encoding; invalid sequences stay as they are.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        let (next, length) = match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(hex) => (hex, 3),
            None if byte == b'+' => (b' ', 1),
            None => (byte, 1),
        };
        plain.push(next);
        at += length;
    }
    String::from_utf8_lossy(&plain).into_owned()
}
