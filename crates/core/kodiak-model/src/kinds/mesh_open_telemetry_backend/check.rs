//! Validation of a MeshOpenTelemetryBackend.

use super::{Endpoint, Env, MeshOpenTelemetryBackend, Protocol};
use crate::{
    Choice, FieldPath, Problems,
    address::{is_dns_name, is_ip},
};

pub(super) fn check(spec: &MeshOpenTelemetryBackend, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshOpenTelemetryBackend { endpoint, protocol, env } = spec;
    if let Some(endpoint) = endpoint {
        check_endpoint(endpoint, protocol.as_ref(), &at.field("endpoint"), problems);
    }
    if let Some(protocol) = protocol {
        protocol.check(&at, "protocol", problems);
    }
    if let Some(Env { mode, precedence, allow_signal_overrides: _ }) = env {
        let at = at.field("env");
        if let Some(mode) = mode {
            mode.check(&at, "mode", problems);
        }
        if let Some(precedence) = precedence {
            precedence.check(&at, "precedence", problems);
        }
    }
}

fn check_endpoint(
    endpoint: &Endpoint,
    protocol: Option<&Choice<Protocol>>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let Endpoint { address, port, path } = endpoint;
    match address.as_deref() {
        Some("") => problems.add(&at.field("address"), "must not be empty"),
        Some(address) => {
            let is_host = is_ip(address) || is_dns_name(address);
            problems.require(is_host, &at.field("address"), "address has to be a valid IP or hostname");
        }
        None => (),
    }
    let is_port = port.is_none_or(|port| (1..=65535).contains(&port));
    problems.require(is_port, &at.field("port"), "port must be a valid (1-65535)");
    if let Some(path) = path.as_deref().filter(|path| !path.is_empty()) {
        let at = at.field("path");
        if protocol.is_none_or(|protocol| protocol.is(Protocol::Grpc)) {
            problems.add(&at, "must not be set when protocol is grpc");
            return;
        }
        problems.require(path.starts_with('/'), &at, "must start with /");
        problems.require(!path.contains(['?', '#']), &at, "must not contain query or fragment");
    }
}
