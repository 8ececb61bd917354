//! DataplaneInsight: connections and certificate of a proxy, as observed by the control plane.

mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec, subscription::Subscription};

pub use spec::{DataplaneInsight, MtlsInsight, OpenTelemetry, OpenTelemetryBackend, OpenTelemetrySignal};

pub static KIND: Kind =
    Kind::legacy("DataplaneInsight", "dataplane-insights", Scope::Mesh, Language::of::<DataplaneInsight>())
        .access(Access::ReadOnly);

impl Spec for DataplaneInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}

impl DataplaneInsight {
    /// Whether the proxy is connected to any control plane.
    pub fn is_online(&self) -> bool {
        self.subscriptions.iter().any(Subscription::is_open)
    }

    pub fn last_subscription(&self) -> Option<&Subscription> {
        self.subscriptions.last()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn insight(subscriptions: &Value) -> DataplaneInsight {
        serde_json::from_value(json!({ "subscriptions": subscriptions })).unwrap()
    }

    #[test]
    fn online_with_one_open_connection() {
        let open = json!({ "id": "2", "connectTime": "2026-01-01T00:00:00Z" });
        let closed = json!({
            "id": "1", "connectTime": "2026-01-01T00:00:00Z", "disconnectTime": "2026-01-01T00:00:01Z",
        });
        assert!(insight(&json!([open, closed])).is_online());
        assert!(!insight(&json!([closed])).is_online());
        assert!(!insight(&json!([{ "id": "never connected" }])).is_online());
        assert!(!insight(&json!([])).is_online());
        assert_eq!(insight(&json!([open, closed])).last_subscription().map(|last| last.id.as_str()), Some("1"));
    }
}
