//! Validation of a MeshExternalService.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{Endpoint, Match, MeshExternalService, Source, Tls, Verification};
use crate::{
    CheckCtx, Choice, FieldPath, Problems,
    address::{is_dns_name, is_ip},
    names,
};

pub(super) fn check(spec: &MeshExternalService, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    names::check_length(ctx.display_name(), names::SERVICE_MAX, problems);
    let at = FieldPath::SPEC;
    let MeshExternalService { matching, extension, endpoints, tls } = spec;
    check_match(matching, &at.field("match"), problems);
    if let Some(extension) = extension {
        extension.check(&at.field("extension"), problems);
        return;
    }
    let at_endpoints = at.field("endpoints");
    for (n, endpoint) in endpoints.iter().flatten().enumerate() {
        check_endpoint(endpoint, &at_endpoints.index(n), problems);
    }
    if let Some(tls) = tls {
        check_tls(tls, &at.field("tls"), problems);
    }
}

fn check_match(matching: &Match, at: &FieldPath<'_>, problems: &mut Problems) {
    let Match { match_type, port, protocol } = matching;
    if let Choice::Unknown(written) = match_type {
        let message = format!("unrecognized type '{written}' - only 'HostnameGenerator' is supported");
        problems.add(&at.field("type"), message);
    }
    check_port(*port, &at.field("port"), problems);
    protocol.check(at, "protocol", problems);
}

fn check_endpoint(endpoint: &Endpoint, at: &FieldPath<'_>, problems: &mut Problems) {
    let Endpoint { address, port, priority: _ } = endpoint;
    let is_host = is_ip(address) || is_dns_name(address);
    problems.require(is_host, &at.field("address"), "address has to be a valid IP or hostname");
    check_port(*port, &at.field("port"), problems);
}

fn check_port(port: u32, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require((1..=65535).contains(&port), at, "port must be a valid (1-65535)");
}

fn check_tls(tls: &Tls, at: &FieldPath<'_>, problems: &mut Problems) {
    let Tls { enabled: _, version, allow_renegotiation: _, verification } = tls;
    if let Some(version) = version {
        version.check(&at.field("version"), problems);
    }
    if let Some(verification) = verification {
        check_verification(verification, &at.field("verification"), problems);
    }
}

/// Two enums are listed in another order than in the schema, as in Kuma's messages.
fn check_verification(verification: &Verification, at: &FieldPath<'_>, problems: &mut Problems) {
    let Verification { mode, server_name, subject_alt_names, ca_cert, client_cert, client_key } = verification;
    if let Choice::Unknown(_) = mode {
        problems.add(&at.field("mode"), r#""mode" must be one of ["SkipSAN", "SkipCA", "SkipAll", "Secured"]"#);
    }
    let is_name = server_name.as_ref().is_none_or(|name| is_dns_name(name));
    problems.require(is_name, &at.field("serverName"), "must be a valid DNS name");
    let at_names = at.field("subjectAltNames");
    for (n, name) in subject_alt_names.iter().flatten().enumerate() {
        if let Choice::Unknown(_) = name.match_type {
            problems.add(&at_names.index(n).field("type"), r#""type" must be one of ["Prefix", "Exact"]"#);
        }
    }
    let alone = |one: &Option<Source>, other: &Option<Source>| one.is_some() && other.is_none();
    if alone(client_cert, client_key) {
        problems.add(&at.field("clientKey"), "must be defined when clientCert is defined");
    }
    if alone(client_key, client_cert) {
        problems.add(&at.field("clientCert"), "must be defined when clientKey is defined");
    }
    for (field, source) in [("caCert", ca_cert), ("clientCert", client_cert), ("clientKey", client_key)] {
        let inline = source.as_ref().and_then(|source| source.inline.as_deref());
        let at = at.field(field);
        problems.require(inline.is_none_or(is_base64), &at.field("inline"), "must be base64");
    }
}

fn is_base64(text: &str) -> bool {
    let one_line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(one_line).is_ok()
}
