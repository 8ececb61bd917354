//! Result of a call that Envoy accepts.

use std::time::Duration;

use kodiak_envoy::envoy::config::route::v3::RetryPolicy;

use super::header_changes::Changes;
use super::request::Headers;
use super::tls::UpstreamTls;

#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub listener: String,
    /// Whether the listener terminates TLS; otherwise it passes TLS through.
    pub ends_tls: bool,
    /// Results of shadow rules, in the order of the filters.
    pub shadows: Vec<Shadow>,
    /// `None` for TCP.
    pub route: Option<Routed>,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    pub filter: String,
    pub allowed: bool,
    /// The policy that matched, if any.
    pub policy: Option<String>,
}

/// Route configuration of the request, and header changes of the response.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    pub virtual_host: String,
    pub name: String,
    pub response: Changes,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Forwarded(Box<Forwarded>),
    Redirected { status: u16, location: String },
    Responded { status: u16, body: String },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Forwarded {
    pub cluster: String,
    /// In the order of priorities.
    pub endpoints: Vec<Endpoint>,
    /// `None` for TCP.
    pub http: Option<Http>,
}

/// The upstream request, without the headers that Envoy adds itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    pub authority: String,
    pub path: String,
    pub headers: Headers,
    pub timeout: Duration,
    pub retry: Option<RetryPolicy>,
    pub mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    pub cluster: String,
    pub per_million: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    pub address: String,
    pub port: u16,
    pub hostname: String,
    pub zone: String,
    pub priority: u32,
    pub weight: u32,
    pub locality_weight: Option<u32>,
    pub tls: Option<UpstreamTls>,
}

impl Sent {
    pub fn forwarded(&self) -> Option<&Forwarded> {
        match &self.answer {
            Answer::Forwarded(forwarded) => Some(forwarded),
            Answer::Redirected { .. } | Answer::Responded { .. } => None,
        }
    }
}

impl Forwarded {
    /// The endpoint that `dice` selects: of the highest priority, by weight.
    pub fn endpoint(&self, dice: u64) -> Option<&Endpoint> {
        let first = self.endpoints.first()?.priority;
        let candidates = self.endpoints.iter().filter(|endpoint| endpoint.priority == first);
        by_weight(candidates.map(|endpoint| (endpoint, endpoint.weight)), dice)
    }
}

/// Envoy sums up weights to a random number, in the order of the configuration.
pub(super) fn by_weight<T>(items: impl Iterator<Item = (T, u32)> + Clone, dice: u64) -> Option<T> {
    let total: u64 = items.clone().map(|(_, weight)| u64::from(weight)).sum();
    let mut left = dice.checked_rem(total)?;
    for (item, weight) in items {
        match left.checked_sub(weight.into()) {
            Some(rest) => left = rest,
            None => return Some(item),
        }
    }
    None
}
