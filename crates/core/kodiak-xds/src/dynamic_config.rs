//! Configuration for `kodiak dp`, which it reads from a listener of its Envoy: one document for each path.

use std::hash::{Hash, Hasher};

use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption, TrafficDirection};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, Route, RouteConfiguration, RouteMatch, route,
};
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};

use crate::input::DynamicConfig;
use crate::{address, filters, names, routes, tls};

/// JSON of one path, with its ETag. Documents with equal ETags are equal: it is a cryptographic hash.
#[derive(Debug)]
pub struct Document {
    etag: String,
    body: String,
}

impl Document {
    pub fn new(body: String) -> Self {
        Self { etag: names::etag(&body), body }
    }

    pub fn body(&self) -> &str {
        &self.body
    }

    pub fn etag(&self) -> &str {
        &self.etag
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.etag == other.etag
    }
}

impl Eq for Document {}

impl Hash for Document {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.etag.hash(state);
    }
}

/// Envoy responds with the whole document, or with 304 when the ETag matches.
pub fn listener(config: &DynamicConfig) -> Listener {
    let DynamicConfig { socket, documents } = config;
    let longest = documents.values().map(|document| document.body.len()).max().unwrap_or_default();
    let routes = documents.iter().flat_map(|(path, document)| [same(path, document), whole(path, document)]);
    let name = names::DYNAMIC_CONFIG;
    let routes = RouteConfiguration {
        max_direct_response_body_size_bytes: Some(u32::try_from(longest).unwrap_or(u32::MAX)),
        ..routes::all_domains(name.to_owned(), name, routes.collect())
    };
    let http = filters::own_http(name, routes);
    Listener {
        name: name.to_owned(),
        address: Some(address::private_pipe(socket)),
        traffic_direction: TrafficDirection::Inbound.into(),
        filter_chains: vec![FilterChain { filters: vec![filters::http_filter(&http)], ..FilterChain::default() }],
        ..Listener::default()
    }
}

fn same(path: &str, document: &Document) -> Route {
    let exact = MatchPattern::Exact(document.etag.clone());
    let known = HeaderMatcher {
        name: "if-none-match".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(exact),
            ..StringMatcher::default()
        })),
        ..HeaderMatcher::default()
    };
    let matched = RouteMatch { headers: vec![known], ..routes::prefix(path) };
    answer(matched, document, DirectResponseAction { status: 304, ..DirectResponseAction::default() })
}

fn whole(path: &str, document: &Document) -> Route {
    let body = Some(tls::inline(&document.body));
    answer(
        routes::prefix(path),
        document,
        DirectResponseAction { status: 200, body, ..DirectResponseAction::default() },
    )
}

fn answer(matched: RouteMatch, document: &Document, response: DirectResponseAction) -> Route {
    let etag = HeaderValue { key: "etag".to_owned(), value: document.etag.clone(), ..HeaderValue::default() };
    Route {
        response_headers_to_add: vec![HeaderValueOption {
            header: Some(etag),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
            ..HeaderValueOption::default()
        }],
        ..routes::route(matched, route::Action::DirectResponse(response))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::testing::at;

    #[test]
    fn dp_gets_each_document_or_not_modified() {
        let document = |body: &str| Arc::new(Document::new(body.to_owned()));
        let documents = [("/dns", document("{}")), ("/meshmetric", document("{\"a\":1}"))].into();
        let listener = listener(&DynamicConfig { socket: "/tmp/config.sock".to_owned(), documents });
        assert_eq!(at(&listener, "/address/pipe/path"), "/tmp/config.sock");
        let config = at(&listener, "/filterChains/0/filters/0/typedConfig/routeConfig");
        assert_eq!(config["maxDirectResponseBodySizeBytes"], 7);
        let routes = &config["virtualHosts"][0]["routes"];
        for (first, path, body) in [(0, "/dns", "{}"), (2, "/meshmetric", "{\"a\":1}")] {
            let etag = names::etag(body);
            assert_eq!(routes[first]["match"]["prefix"], path);
            assert_eq!(routes[first]["match"]["headers"][0]["stringMatch"]["exact"], etag);
            assert_eq!(routes[first]["directResponse"], json!({"status": 304}));
            assert_eq!(routes[first + 1]["match"]["prefix"], path);
            assert_eq!(routes[first + 1]["directResponse"]["status"], 200);
            assert_eq!(routes[first + 1]["responseHeadersToAdd"][0]["header"], json!({"key": "etag", "value": etag}));
        }
    }
}
