//! Validation of MeshAccessLog.

use kodiak_model::{FieldPath, Problems, TargetKind, TargetRef, TargetRules};
use serde_json::Value;

use super::{
    Attribute, Backend, BackendType, Conf, FileBackend, Format, FormatType, JsonField, MeshAccessLog,
    OpenTelemetryBackend, TcpBackend,
};
use crate::{
    file_path::is_file_path,
    from_to::{self, is_used},
    matches, open_telemetry, top_level,
    url::is_url,
    variant,
};

const TO: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshService,
    TargetKind::MeshExternalService,
    TargetKind::MeshMultiZoneService,
    TargetKind::MeshHTTPRoute,
];
const MESH: &[TargetKind] = &[TargetKind::Mesh];

pub(super) fn check(spec: &MeshAccessLog, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshAccessLog { target_ref, to, from, rules } = spec;
    let (has_to, has_from, has_rules) = (is_used(to.as_ref()), is_used(from.as_ref()), is_used(rules.as_ref()));
    if let Some(target) = target_ref {
        let kinds = top_level::PROXIES_AND_GATEWAYS;
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    if has_rules && (has_to || has_from) {
        problems.add(&at, "fields 'to' and 'from' must be empty when 'rules' is defined");
    }
    if !has_to && !has_from && !has_rules {
        problems.add(&at, "at least one of 'from', 'to' or 'rules' has to be defined");
    }
    let of_gateway = target_ref.as_ref().and_then(TargetRef::known_kind) == Some(TargetKind::MeshGateway);
    let to_kinds = TargetRules::kinds(if of_gateway { MESH } else { TO });
    from_to::check_items(to.as_ref(), to_kinds, &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    from_to::check_items(from.as_ref(), TargetRules::kinds(MESH), &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let at = at.field("rules");
    for (n, rule) in rules.iter().flatten().enumerate() {
        let at = at.index(n);
        matches::check(rule.matches.as_ref(), &at.field("matches"), problems);
        check_conf(&rule.default, &at.field("default"), problems);
    }
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("backends");
    match &conf.backends {
        None => problems.add(&at, "must be defined"),
        Some(backends) => {
            for (n, backend) in backends.iter().enumerate() {
                check_backend(backend, &at.index(n), problems);
            }
        }
    }
}

fn check_backend(backend: &Backend, at: &FieldPath<'_>, problems: &mut Problems) {
    let Backend { backend_type, tcp, file, open_telemetry } = backend;
    let Some(backend_type) = variant::member(backend_type.as_ref(), &at.field("type"), problems) else { return };
    match backend_type.check(at, "type", problems) {
        Some(BackendType::Tcp) => check_tcp(tcp.as_ref(), &at.field("tcp"), problems),
        Some(BackendType::File) => check_file(file.as_ref(), &at.field("file"), problems),
        Some(BackendType::OpenTelemetry) => {
            check_open_telemetry(open_telemetry.as_ref(), &at.field("openTelemetry"), problems);
        }
        None => (),
    }
}

fn check_tcp(tcp: Option<&TcpBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(TcpBackend { format, address }) = variant::member(tcp, at, problems) else { return };
    check_format(format.as_ref(), &at.field("format"), problems);
    problems.require(is_url(address), &at.field("address"), "tcp backend requires valid address");
}

fn check_file(file: Option<&FileBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(FileBackend { format, path }) = variant::member(file, at, problems) else { return };
    check_format(format.as_ref(), &at.field("format"), problems);
    problems.require(is_file_path(path), &at.field("path"), "file backend requires a valid path");
}

fn check_open_telemetry(backend: Option<&OpenTelemetryBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(OpenTelemetryBackend { attributes, body: _, endpoint, backend_ref }) =
        variant::member(backend, at, problems)
    else {
        return;
    };
    open_telemetry::check(endpoint.as_deref(), backend_ref.as_ref(), at, problems, |_, _, _| ());
    let at = at.field("attributes");
    for (n, Attribute { key, value: _ }) in attributes.iter().flatten().enumerate() {
        if let Some(message) = wrong_attribute(key) {
            problems.add(&at.index(n).field("key"), message);
        }
    }
}

fn wrong_attribute(key: &str) -> Option<&'static str> {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(inside);
    if key.is_empty() {
        Some("must be defined")
    } else if key.contains('%') {
        Some("must be a static OpenTelemetry attribute name; placeholders are only supported in values")
    } else if key.starts_with("otel.") {
        Some("must not use the reserved OpenTelemetry prefix 'otel.'")
    } else if !key.starts_with(|c: char| c.is_ascii_lowercase()) || !key.split(['.', '_']).all(is_word) {
        Some(
            "must start with a lowercase letter, use only lowercase letters, digits, '.' or '_', avoid consecutive delimiters, and end with a letter or digit",
        )
    } else {
        None
    }
}

fn check_format(format: Option<&Format>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(Format { format_type, plain, json, omit_empty_values: _ }) = format else { return };
    let Some(format_type) = variant::member(format_type.as_ref(), &at.field("type"), problems) else { return };
    match (format_type.check(at, "type", problems), plain, json) {
        (Some(FormatType::Plain), None, _) => problems.add(&at.field("plain"), "must be defined"),
        (Some(FormatType::Plain), Some(plain), _) => {
            problems.require(!plain.is_empty(), &at.field("plain"), "must not be empty");
        }
        (Some(FormatType::Json), _, None) => problems.add(&at.field("json"), "must be defined"),
        (Some(FormatType::Json), _, Some(fields)) => check_fields(fields, &at.field("json"), problems),
        (None, _, _) => (),
    }
}

fn check_fields(fields: &[JsonField], at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(!fields.is_empty(), at, "must not be empty");
    for (n, JsonField { key, value }) in fields.iter().enumerate() {
        let at = at.index(n);
        problems.require(!key.is_empty(), &at.field("key"), "key cannot be empty");
        problems.require(!value.is_empty(), &at.field("value"), "value cannot be empty");
        // Kuma inserts both between quotes without escaping them.
        let is_json = serde_json::from_str::<Value>(&format!(r#"{{"{key}": "{value}"}}"#)).is_ok();
        problems.require(is_json, &at, "is not a valid JSON object");
    }
}
