//! Requests of the REST API.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::store::seconds;

#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    /// With the labels of Kuma.
    handler_seconds: Family<HandlerLabels, Histogram>,
    in_flight: Family<InFlightLabels, Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HandlerLabels {
    handler: String,
    method: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct InFlightLabels {
    handler: String,
}

/// A request that is being answered, until it is dropped.
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
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
        Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            handler_seconds: Family::new_with_constructor(seconds),
            in_flight: Family::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("api_requests", "Requests answered by the API", self.requests.clone());
        registry.register("api_request_seconds", "Time to answer a request", self.request_seconds.clone());
    }

    pub(crate) fn register_kuma(&self, registry: &mut Registry) {
        let (seconds, in_flight) = (self.handler_seconds.clone(), self.in_flight.clone());
        registry.register("api_server_http_request_duration_seconds", "Time to answer a request", seconds);
        registry.register("api_server_http_requests_inflight", "Requests that are being answered", in_flight);
    }

    pub fn begun(&self, route: &str) -> InFlight {
        let gauge = self.in_flight.get_or_create_owned(&InFlightLabels { handler: route.to_owned() });
        gauge.inc();
        InFlight(gauge)
    }

    pub fn answered(&self, method: &str, route: &str, code: u16, took: Duration) {
        let (method, route) = (method.to_owned(), route.to_owned());
        self.requests.get_or_create(&RequestLabels { method: method.clone(), route: route.clone(), code }).inc();
        let labels = HandlerLabels { handler: route.clone(), method: method.clone(), code };
        self.handler_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.request_seconds.get_or_create(&RouteLabels { method, route }).observe(took.as_secs_f64());
    }
}
