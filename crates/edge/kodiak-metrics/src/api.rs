//! Requests of the REST API.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::store::seconds;

#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    route: String,
}

impl ApiMetrics {
    pub(crate) fn new() -> Self {
        Self { requests: Family::default(), request_seconds: Family::new_with_constructor(seconds) }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("api_requests", "Requests answered by the API", self.requests.clone());
        registry.register("api_request_seconds", "Time to answer a request", self.request_seconds.clone());
    }

    pub fn answered(&self, method: &str, route: &str, code: u16, took: Duration) {
        let (method, route) = (method.to_owned(), route.to_owned());
        self.requests.get_or_create(&RequestLabels { method: method.clone(), route: route.clone(), code }).inc();
        self.request_seconds.get_or_create(&RouteLabels { method, route }).observe(took.as_secs_f64());
    }
}
