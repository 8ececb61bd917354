//! Requests of the proxy port that are no streams: `/bootstrap`, `/drain` and `/plaintext-callers`.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::store::seconds;

#[derive(Clone)]
pub struct ProxyPortMetrics {
    request_seconds: Family<HandlerLabels, Histogram>,
    response_bytes: Family<HandlerLabels, Histogram>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HandlerLabels {
    handler: &'static str,
    method: &'static str,
    code: u16,
}

fn bytes() -> Histogram {
    Histogram::new([100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0])
}

impl ProxyPortMetrics {
    pub(crate) fn new() -> Self {
        Self {
            request_seconds: Family::new_with_constructor(seconds),
            response_bytes: Family::new_with_constructor(bytes),
        }
    }

    pub(crate) fn register_kuma(&self, registry: &mut Registry) {
        let (seconds, bytes) = (self.request_seconds.clone(), self.response_bytes.clone());
        registry.register("dp_server_http_request_duration_seconds", "Time to answer a request of a proxy", seconds);
        registry.register("dp_server_http_response_size_bytes", "Size of the answer", bytes);
    }

    pub fn answered(&self, handler: &'static str, code: u16, bytes: usize, took: Duration) {
        let labels = HandlerLabels { handler, method: "POST", code };
        self.request_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "answers are far smaller")]
        self.response_bytes.get_or_create(&labels).observe(bytes as f64);
    }
}
