//! Validation of MeshTrace.

use kodiak_model::{CheckCtx, FieldPath, IntOrString, Problems, TargetRules};

use super::{
    Backend, BackendType, Conf, DatadogBackend, MeshTrace, OpenTelemetryBackend, Sampling, Tag, ZipkinBackend,
};
use crate::{
    open_telemetry, top_level,
    url::{Uri, is_url},
    variant,
};

pub(super) fn check(spec: &MeshTrace, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshTrace { target_ref, default } = spec;
    if let Some(target) = target_ref {
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        target.check(TargetRules::kinds(kinds), &at.field("targetRef"), problems);
    }
    check_conf(default, &at.field("default"), problems);
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { backends, sampling, tags } = conf;
    let at_backends = at.field("backends");
    match backends.as_deref() {
        None => problems.add(&at_backends, "must be defined"),
        Some([]) => (),
        Some([backend]) => check_backend(backend, &at_backends.index(0), problems),
        Some([_, _, ..]) => problems.add(&at_backends, "must have zero or one backend defined"),
    }
    let at_tags = at.field("tags");
    for (n, tag) in tags.iter().flatten().enumerate() {
        check_tag(tag, &at_tags.index(n), problems);
    }
    if let Some(sampling) = sampling {
        check_sampling(sampling, &at.field("sampling"), problems);
    }
}

fn check_tag(tag: &Tag, at: &FieldPath<'_>, problems: &mut Problems) {
    let Tag { name, literal, header } = tag;
    problems.require(!name.is_empty(), &at.field("name"), "must not be empty");
    let one = literal.is_some() != header.is_some();
    problems.require(one, at, "tag must have only one type defined: header, literal");
}

fn check_sampling(sampling: &Sampling, at: &FieldPath<'_>, problems: &mut Problems) {
    let Sampling { overall, client, random } = sampling;
    for (field, value) in [("client", client), ("random", random), ("overall", overall)] {
        match value.as_ref().map(IntOrString::decimal) {
            None => (),
            Some(None) => problems.add(&at.field(field), "string is not a number"),
            Some(Some(number)) => {
                problems.require((0.0..=100.0).contains(&number), &at.field(field), "must be between 0 and 100");
            }
        }
    }
}

fn check_backend(backend: &Backend, at: &FieldPath<'_>, problems: &mut Problems) {
    let Backend { backend_type, zipkin, datadog, open_telemetry } = backend;
    let Some(backend_type) = variant::member(backend_type.as_ref(), &at.field("type"), problems) else { return };
    match backend_type.check(at, "type", problems) {
        Some(BackendType::Zipkin) => check_zipkin(zipkin.as_ref(), &at.field("zipkin"), problems),
        Some(BackendType::Datadog) => check_datadog(datadog.as_ref(), &at.field("datadog"), problems),
        Some(BackendType::OpenTelemetry) => {
            check_open_telemetry(open_telemetry.as_ref(), &at.field("openTelemetry"), problems);
        }
        None => (),
    }
}

fn check_zipkin(zipkin: Option<&ZipkinBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(zipkin) = variant::member(zipkin, at, problems) else { return };
    let ZipkinBackend { url, trace_id_128_bit: _, api_version, shared_span_context: _ } = zipkin;
    if url.is_empty() {
        problems.add(&at.field("url"), "must not be empty");
    } else {
        problems.require(is_url(url), &at.field("url"), "must be a valid url");
    }
    api_version.check(at, "apiVersion", problems);
}

/// The agent is a host and port: other parts of a URL are not allowed.
fn check_datadog(datadog: Option<&DatadogBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(DatadogBackend { url, split_service: _ }) = variant::member(datadog, at, problems) else { return };
    let at = at.field("url");
    let Some(Uri { scheme, opaque, user, host: _, port, path, query }) = Uri::parse(url) else {
        problems.add(&at, "must be a valid url");
        return;
    };
    problems.require(scheme == "http", &at, "scheme must be http");
    if port.is_empty() {
        problems.add(&at, "port must be defined");
    } else {
        let real = port.parse::<u16>().is_ok_and(|port| port > 0);
        problems.require(real, &at, "port must be a valid (1-65535)");
    }
    let rest = [
        ("opaque", opaque.is_empty()),
        ("user", user.is_none()),
        ("path", path.is_empty()),
        ("query", query.is_empty()),
    ];
    for (part, missing) in rest {
        problems.require(missing, &at, &format!("{part} must not be defined"));
    }
}

fn check_open_telemetry(backend: Option<&OpenTelemetryBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(OpenTelemetryBackend { endpoint, backend_ref }) = variant::member(backend, at, problems) else { return };
    open_telemetry::check(endpoint.as_deref(), backend_ref.as_ref(), at, problems, |_, _, _| ());
}
