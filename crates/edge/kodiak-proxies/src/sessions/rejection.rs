//! Whether a rejection (NACK) of a proxy holds up a step of an mTLS rollout, or changed permissions.
//!
//! A step changes inbound listeners, clusters and secrets. Endpoints, routes and outbound listeners have no part in it: a
//! proxy that rejects a route of a policy has still applied the step. Envoy applies the other listeners of a response and
//! names the rejected ones in its error. Where it does not, the step waits.

use kodiak_xds::names;
use kodiak_xds_stream::{Snapshot, TypeUrl};

use super::status::TypeStatus;

/// The stream truncates longer errors, which may name more listeners.
const LONGEST_WHOLE: usize = 4000;
/// Longest error in an insight.
const LONGEST_KEPT: usize = 300;

/// The error that holds up the step, for people. `None` when the proxy has applied everything that a step may change.
pub(crate) fn holding_up(types: &[TypeStatus], snapshot: Option<&Snapshot>) -> Option<String> {
    let of_type = types.iter().find(|of_type| of_type.rejecting && concerns_mtls(of_type, snapshot))?;
    let short = match of_type.type_url {
        TypeUrl::Cluster => "cds",
        TypeUrl::Endpoint => "eds",
        TypeUrl::Listener => "lds",
        TypeUrl::Route => "rds",
        TypeUrl::Secret => "sds",
    };
    let error = of_type.last_error.as_deref().unwrap_or_default();
    Some(format!("{short}: {}", &error[..error.floor_char_boundary(LONGEST_KEPT)]))
}

/// Whether the proxy may run on older permissions, which its inbound listeners have, or on an older certificate.
pub(crate) fn concerns_permissions(types: &[TypeStatus], snapshot: Option<&Snapshot>) -> bool {
    let may_concern = |of_type: &&TypeStatus| matches!(of_type.type_url, TypeUrl::Listener | TypeUrl::Secret);
    let mut rejected = types.iter().filter(may_concern).filter(|of_type| of_type.rejecting);
    rejected.any(|of_type| concerns_mtls(of_type, snapshot))
}

fn concerns_mtls(of_type: &TypeStatus, snapshot: Option<&Snapshot>) -> bool {
    match of_type.type_url {
        TypeUrl::Endpoint | TypeUrl::Route => false,
        TypeUrl::Cluster | TypeUrl::Secret => true,
        TypeUrl::Listener => {
            let error = of_type.last_error.as_deref().unwrap_or_default();
            let listeners = snapshot.into_iter().flat_map(|snapshot| snapshot.of(TypeUrl::Listener).keys());
            !names_only_outbounds(error, listeners.map(|name| &**name))
        }
    }
}

/// An inbound that is no longer in the snapshot is found by its prefix. In doubt the step waits.
fn names_only_outbounds<'a>(error: &str, listeners: impl Iterator<Item = &'a str>) -> bool {
    let mut named = listeners.filter(|name| error.contains(name)).peekable();
    error.len() < LONGEST_WHOLE
        && !error.contains("inbound:")
        && named.peek().is_some()
        && named.all(names::is_outbound_listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENERS: [&str; 3] = ["inbound:10.0.0.1:8080", "outbound:240.0.0.1:80", "kuma:dns"];

    #[track_caller]
    fn check(error: &str, expected: bool) {
        assert_eq!(names_only_outbounds(error, LISTENERS.into_iter()), expected, "{error}");
    }

    #[test]
    fn only_errors_about_outbound_listeners_are_ignored() {
        check("Error adding/updating listener(s) outbound:240.0.0.1:80: no argument for repetition operator: *", true);
        check("Error adding/updating listener(s) inbound:10.0.0.1:8080: cannot bind", false);
        check("Error adding/updating listener(s) outbound:240.0.0.1:80: a\ninbound:10.0.0.1:8080: b", false);
        check("Error adding/updating listener(s) outbound:240.0.0.1:80: a\ninbound:10.0.0.9:1: gone since", false);
        check("Error adding/updating listener(s) outbound:240.0.0.1:80: a\nkuma:dns: b", false);
        check("Error adding/updating listener(s) outbound:240.0.0.9:80: of another snapshot", false);
        check("an error that names no listener", false);
        check(&format!("outbound:240.0.0.1:80 {}", "x".repeat(4096)), false);
    }

    #[test]
    fn endpoints_and_routes_never_hold_up_and_clusters_and_secrets_always_do() {
        let rejecting = |type_url| TypeStatus { rejecting: true, ..TypeStatus::new(type_url) };
        for (type_url, holds) in [
            (TypeUrl::Endpoint, None),
            (TypeUrl::Route, None),
            (TypeUrl::Cluster, Some("cds: ")),
            (TypeUrl::Secret, Some("sds: ")),
            (TypeUrl::Listener, Some("lds: ")),
        ] {
            assert_eq!(holding_up(&[rejecting(type_url)], None).as_deref(), holds);
            assert_eq!(holding_up(&[TypeStatus::new(type_url)], None), None);
        }
    }
}
