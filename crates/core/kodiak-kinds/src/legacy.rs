//! Legacy kinds of Kuma that Kodiak does not have, with their replacements.
//!
//! They have no routes of their own and are never stored; this table is for error messages, and for `kodiak migrate
//! kuma`, which converts them.

/// Kind of Kuma with a replacement. All of them belong to a mesh.
#[derive(Debug, PartialEq, Eq)]
pub struct LegacyKind {
    pub name: &'static str,
    /// Path segment in Kuma's REST URLs.
    pub path: &'static str,
    /// Kind, or kinds, to use instead.
    pub replacement: &'static str,
}

const fn row(name: &'static str, path: &'static str, replacement: &'static str) -> LegacyKind {
    LegacyKind { name, path, replacement }
}

static LEGACY: [LegacyKind; 14] = [
    row("CircuitBreaker", "circuit-breakers", "MeshCircuitBreaker"),
    row("ExternalService", "external-services", "MeshExternalService"),
    row("FaultInjection", "fault-injections", "MeshFaultInjection"),
    row("HealthCheck", "health-checks", "MeshHealthCheck"),
    row("MeshGatewayRoute", "meshgatewayroutes", "MeshHTTPRoute and MeshTCPRoute"),
    row("ProxyTemplate", "proxytemplates", "MeshProxyPatch"),
    row("RateLimit", "rate-limits", "MeshRateLimit"),
    row("Retry", "retries", "MeshRetry"),
    row("Timeout", "timeouts", "MeshTimeout"),
    row("TrafficLog", "traffic-logs", "MeshAccessLog"),
    row("TrafficPermission", "traffic-permissions", "MeshTrafficPermission"),
    row("TrafficRoute", "traffic-routes", "MeshHTTPRoute and MeshTCPRoute"),
    row("TrafficTrace", "traffic-traces", "MeshTrace"),
    row("VirtualOutbound", "virtual-outbounds", "HostnameGenerator"),
];

pub fn legacy_kinds() -> &'static [LegacyKind] {
    &LEGACY
}

impl LegacyKind {
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LEGACY.iter().find(|kind| kind.name == name)
    }

    /// Looks up a command-line argument: `TrafficRoute`, `traffic-route`, `trafficroutes`.
    pub fn by_arg(arg: &str) -> Option<&'static Self> {
        let plain: String = arg.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        LEGACY.iter().find(|kind| kind.name.eq_ignore_ascii_case(&plain) || kind.path.replace('-', "") == plain)
    }

    /// Error message for its users.
    pub fn advice(&self) -> String {
        let Self { name, replacement, .. } = self;
        format!("{name} is a legacy kind of Kuma; use {replacement} instead, or convert it with `kodiak migrate kuma`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn legacy_kinds_are_no_kinds() {
        for legacy in legacy_kinds() {
            assert!(kinds().by_name(legacy.name).is_none(), "{}", legacy.name);
            assert!(kinds().by_path(legacy.path).is_none(), "{}", legacy.path);
            assert!(kinds().by_arg(legacy.name).is_none(), "{}", legacy.name);
        }
    }

    #[test]
    fn replacements_are_kinds() {
        for legacy in legacy_kinds() {
            for name in legacy.replacement.split(" and ") {
                assert!(kinds().by_name(name).is_some(), "{}: {name}", legacy.name);
            }
        }
    }

    #[test]
    fn any_spelling_finds_the_kind() {
        for spelling in ["TrafficRoute", "trafficroute", "traffic-routes", "traffic-route", "TRAFFICROUTES"] {
            assert_eq!(LegacyKind::by_arg(spelling).map(|kind| kind.name), Some("TrafficRoute"), "{spelling}");
        }
        assert_eq!(LegacyKind::by_arg("MeshTimeout"), None);
    }
}
