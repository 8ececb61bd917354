//! Order of filters: one table for each kind of filter chain, with reasons.

/// HTTP filters, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpStep {
    /// Denied requests cost nothing further, and no other filter counts them.
    Permissions,
    /// After permissions: denied requests do not use up the limit.
    RateLimit,
    /// After the rate limit: rejected requests get no fault, and a delayed or aborted request counts towards the limit.
    Fault,
    /// Counts responses, so directly before the router.
    GrpcStats,
    /// Terminal filter, which must be last.
    Router,
}

/// Network filters, outermost first. The HTTP connection manager or TCP proxy follows all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkStep {
    /// Before a connection to the application is opened.
    Permissions,
    /// Before a connection to the application is opened.
    RateLimit,
    /// Extracts the caller's identity for route matches, so before the connection manager.
    Caller,
}

#[cfg(test)]
mod tests {
    use super::HttpStep;
    use crate::samples::{as_http, from, http, inbound, route};
    use crate::{Policy, mesh_fault_injection, mesh_rate_limit, mesh_traffic_permission};

    /// Steps of the filters that a policy adds to an inbound with mutual TLS.
    fn steps(policy: Option<&dyn Policy>, conf: &str) -> Vec<HttpStep> {
        let served = inbound(policy.unwrap(), &[from(conf)], &http(vec![route("")]));
        as_http(&served.chains[1].carrier).filters.iter().map(|(step, _)| *step).collect()
    }

    #[test]
    fn permissions_come_before_limits_and_limits_before_faults() {
        let mut found = [
            steps(mesh_fault_injection::POLICY, "http: [{abort: {httpStatus: 503, percentage: 1}}]"),
            steps(mesh_rate_limit::POLICY, "local: {http: {requestRate: {num: 5, interval: 1s}}}"),
            steps(mesh_traffic_permission::POLICY, "action: Allow"),
            vec![HttpStep::Router, HttpStep::GrpcStats],
        ]
        .concat();
        found.sort();
        let expected =
            [HttpStep::Permissions, HttpStep::RateLimit, HttpStep::Fault, HttpStep::GrpcStats, HttpStep::Router];
        assert_eq!(found, expected);
    }
}
