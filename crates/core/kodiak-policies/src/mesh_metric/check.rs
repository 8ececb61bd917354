//! Validation of MeshMetric.
//!
//! Kuma's paths of applications and backends are `applications.application[i]` and `backends.backend[i]`.

use std::collections::BTreeMap;

use kodiak_model::{CheckCtx, Choice, FieldPath, Problems, TargetRules};
use regex_lite::Regex;

use super::{
    Application, Backend, BackendType, Conf, MeshMetric, OpenTelemetryBackend, Profile, Profiles, PrometheusBackend,
    PrometheusTls, Selector, SelectorType, Sidecar,
};
use crate::{open_telemetry, top_level, url::is_url, variant};

pub(super) fn check(spec: &MeshMetric, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshMetric { target_ref, default } = spec;
    if let Some(target) = target_ref {
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: false };
        target.check(rules, &at.field("targetRef"), problems);
    }
    check_conf(default, &at.field("default"), problems);
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { sidecar, applications, backends } = conf;
    if let Some(Sidecar { profiles: Some(profiles), include_unused: _ }) = sidecar {
        check_profiles(profiles, &at.field("sidecar").field("profiles"), problems);
    }
    let at_applications = at.field("applications");
    let at_applications = at_applications.field("application");
    for (n, Application { name: _, path: _, address: _, port }) in applications.iter().flatten().enumerate() {
        check_port(*port, &at_applications.index(n), problems);
    }
    let at_backends = at.field("backends");
    let at_backends = at_backends.field("backend");
    for (n, backend) in backends.iter().flatten().enumerate() {
        check_backend(backend, &at_backends.index(n), problems);
    }
    check_distinct_ports(backends.as_deref().unwrap_or_default(), &at.field("backends"), problems);
}

/// Each Prometheus gets a listener of its own. Of backends with one client ID only the last is used.
fn check_distinct_ports(backends: &[Backend], at: &FieldPath<'_>, problems: &mut Problems) {
    let mut opened: BTreeMap<Option<&str>, (usize, u32)> = BTreeMap::new();
    for (n, backend) in backends.iter().enumerate() {
        if let (Some(Some(BackendType::Prometheus)), Some(PrometheusBackend { client_id, port, .. })) =
            (backend.backend_type.as_ref().map(Choice::known), &backend.prometheus)
        {
            opened.insert(client_id.as_deref().filter(|id| !id.is_empty()), (n, *port));
        }
    }
    let mut first: BTreeMap<u32, usize> = BTreeMap::new();
    let mut opened: Vec<(usize, u32)> = opened.into_values().collect();
    opened.sort_unstable();
    for (n, port) in opened {
        let other = *first.entry(port).or_insert(n);
        if other != n {
            let text = format!("{port} is also the port of backends[{other}]: a proxy opens a port for each clientId");
            problems.add(&at.index(n).field("prometheus").field("port"), text);
        }
    }
}

fn check_profiles(profiles: &Profiles, at: &FieldPath<'_>, problems: &mut Problems) {
    let Profiles { append_profiles, exclude, include } = profiles;
    check_selectors(exclude.as_deref(), &at.field("exclude"), problems);
    check_selectors(include.as_deref(), &at.field("include"), problems);
    let at = at.field("appendProfiles");
    for (n, Profile { name }) in append_profiles.iter().flatten().enumerate() {
        if name.as_ref().and_then(Choice::known).is_none() {
            let written = name.as_ref().map_or("", Choice::as_str);
            let message = format!("unrecognized profile name '{written}' - 'All', 'None', 'Basic' are supported");
            problems.add(&at.index(n).field("name"), message);
        }
    }
}

fn check_selectors(selectors: Option<&[Selector]>, at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, Selector { selector_type, text }) in selectors.into_iter().flatten().enumerate() {
        let at = at.index(n);
        match selector_type.as_ref().and_then(Choice::known) {
            Some(SelectorType::Regex) => problems.require(is_regex(text), &at.field("match"), "invalid regex"),
            Some(SelectorType::Prefix | SelectorType::Exact | SelectorType::Contains) => (),
            None => {
                let written = selector_type.as_ref().map_or("", Choice::as_str);
                let message = format!("unrecognized type '{written}' - 'Regex', 'Prefix', 'Exact' are supported");
                problems.add(&at.field("type"), message);
            }
        }
    }
}

/// The sidecar supports Unicode classes, which this regex engine is built without.
fn is_regex(text: &str) -> bool {
    text.contains(r"\p") || text.contains(r"\P") || Regex::new(text).is_ok()
}

fn check_backend(backend: &Backend, at: &FieldPath<'_>, problems: &mut Problems) {
    let Backend { backend_type, prometheus, open_telemetry } = backend;
    match backend_type.as_ref().and_then(Choice::known) {
        Some(BackendType::Prometheus) => check_prometheus(prometheus.as_ref(), at, problems),
        Some(BackendType::OpenTelemetry) => check_open_telemetry(open_telemetry.as_ref(), at, problems),
        None => problems.add(at, "unrecognized type"),
    }
}

/// Kuma's path of the port is beside `prometheus`, not in it.
fn check_prometheus(prometheus: Option<&PrometheusBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(PrometheusBackend { client_id: _, port, path: _, tls }) =
        variant::member(prometheus, &at.field("prometheus"), problems)
    else {
        return;
    };
    check_port(*port, &at.field("port"), problems);
    if let Some(PrometheusTls { mode: Some(mode) }) = tls {
        mode.check(&at.field("prometheus").field("tls"), "mode", problems);
    }
}

fn check_open_telemetry(backend: Option<&OpenTelemetryBackend>, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("openTelemetry");
    let Some(OpenTelemetryBackend { endpoint, backend_ref, refresh_interval: _ }) =
        variant::member(backend, &at, problems)
    else {
        return;
    };
    open_telemetry::check(endpoint.as_deref(), backend_ref.as_ref(), &at, problems, |endpoint, at, problems| {
        problems.require(is_url(endpoint), at, "must be a valid url");
    });
}

fn check_port(port: u32, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require((1..=65535).contains(&port), at, "port must be a valid (1-65535)");
}
