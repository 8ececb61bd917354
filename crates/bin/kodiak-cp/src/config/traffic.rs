//! Settings of traffic observation.

use std::time::Duration;

use kodiak_model::GoDuration;
use kodiak_proxies::TrafficSettings;
use serde::{Deserialize, Serialize};

/// Shortest interval of reports.
const SHORTEST: Duration = Duration::from_secs(1);

/// Observation of the traffic between services, from load reports of proxies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Traffic {
    /// Records which clients call which destinations, and who calls permissive servers without mTLS, for `kodiak
    /// permissions`. A proxy reports its traffic when it was started with this setting.
    pub observe: bool,
    /// Interval at which proxies report. Each report lists all clusters of the proxy.
    pub report_interval: GoDuration,
    /// Shortest time between two writes of observed traffic to the store.
    pub flush_interval: GoDuration,
    /// Limit of pairs of client and destination of a mesh, and of callers without mTLS; further ones are counted, but not
    /// recorded.
    pub max_edges: u32,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            observe: false,
            report_interval: GoDuration::from_secs(10),
            flush_interval: GoDuration::from_secs(30),
            max_edges: 100_000,
        }
    }
}

impl Traffic {
    /// `None` when observation is off.
    pub fn settings(&self) -> Option<TrafficSettings> {
        let time = |time: GoDuration| time.to_std().unwrap_or_default().max(SHORTEST);
        self.observe.then(|| TrafficSettings {
            interval: time(self.report_interval),
            flush_interval: time(self.flush_interval),
            max_edges: usize::try_from(self.max_edges).unwrap_or(usize::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observation_is_off_unless_enabled() {
        assert_eq!(Traffic::default().settings(), None);
        let on = Traffic { observe: true, ..Traffic::default() };
        assert_eq!(on.settings(), Some(TrafficSettings::default()));
        let often = Traffic { report_interval: GoDuration::from_secs(-1), ..on };
        assert_eq!(often.settings().unwrap().interval, SHORTEST);
    }
}
