//! Settings for metrics, as the control plane writes them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::profiles::Profiles;

/// Other fields are ignored: newer control planes may write more.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricsSettings {
    pub(super) sidecar: Sidecar,
    pub(super) applications: Vec<Application>,
    pub(super) backends: Vec<MetricsBackend>,
    /// Labels of metrics that are pushed.
    pub(super) extra_labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sidecar {
    pub(super) profiles: Profiles,
    pub(super) include_unused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Application {
    pub(super) name: Option<String>,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) path: String,
}

impl Application {
    /// Its name, or its address.
    pub(super) fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.authority())
    }

    pub(super) fn authority(&self) -> String {
        if self.address.contains(':') {
            return format!("[{}]:{}", self.address, self.port);
        }
        format!("{}:{}", self.address, self.port)
    }
}

/// A backend. Only those of OpenTelemetry concern the sidecar process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricsBackend {
    pub(super) name: String,
    pub(super) open_telemetry: Option<CollectorSettings>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CollectorSettings {
    /// Socket of Envoy that leads to the collector.
    pub(super) endpoint: String,
    pub(super) refresh_interval: String,
    /// OTLP over HTTP instead of gRPC.
    pub(super) http: Option<HttpCollector>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct HttpCollector {
    /// Value of the host header.
    pub(super) authority: String,
    pub(super) path: String,
}

impl CollectorSettings {
    /// The unit of the control plane is milliseconds; anything else counts as the default.
    pub(super) fn interval(&self) -> Duration {
        const DEFAULT: Duration = Duration::from_mins(1);
        const SHORTEST: Duration = Duration::from_secs(1);
        let millis = self.refresh_interval.strip_suffix("ms").and_then(|millis| millis.parse().ok());
        millis.map_or(DEFAULT, Duration::from_millis).max(SHORTEST)
    }
}

impl MetricsSettings {
    pub(super) fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Document {
            observability: Observability,
        }
        #[derive(Deserialize)]
        struct Observability {
            metrics: MetricsSettings,
        }
        Ok(serde_json::from_slice::<Document>(text)?.observability.metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_format_of_the_control_plane() {
        let text = br#"{"observability": {"metrics": {
            "applications": [{"address": "10.0.0.5", "port": 8080, "path": "/m", "name": "web"}],
            "backends": [{"type": "OpenTelemetry", "name": "otel:4317",
                "openTelemetry": {"endpoint": "/tmp/o.sock", "refreshInterval": "5000ms"}}],
            "sidecar": {"includeUnused": true}, "extraLabels": {"mesh": "default"}, "later": 1}}}"#;
        let read = MetricsSettings::from_json(text).unwrap();
        assert!(read.sidecar.include_unused);
        assert_eq!(read.applications[0].label(), "web");
        assert_eq!(read.backends[0].open_telemetry.as_ref().unwrap().interval(), Duration::from_secs(5));
        assert_eq!(read.extra_labels["mesh"], "default");
    }

    #[test]
    fn fields_may_be_missing() {
        let read = MetricsSettings::from_json(br#"{"observability": {"metrics": {}}}"#).unwrap();
        assert_eq!(read, MetricsSettings::default());
    }
}
