//! Calls to destinations that a proxy lost: its Envoy answers and counts them.

use kodiak_xds::trimmed::{CONNECTIONS, REQUESTS};

use super::{StepName, WhyAnswer};

impl WhyAnswer {
    /// Adds the number of calls to any trimmed destination. `stats` is the answer of the client's Envoy.
    pub fn add_trimmed_calls(&mut self, stats: &str) {
        let counter = |name: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let (Some(requests), Some(connections)) = (counter(REQUESTS), counter(CONNECTIONS)) else { return };
        if let Some(outbound) = self.steps.iter_mut().find(|step| step.step == StepName::Outbound) {
            outbound.details.push(format!(
                "requested but trimmed: its proxy has answered {requests} requests on {connections} connections to \
                 trimmed destinations"
            ));
        }
    }
}
