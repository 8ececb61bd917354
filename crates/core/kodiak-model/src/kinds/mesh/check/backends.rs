//! Validation of `logging` and `tracing`. Kuma's error paths say `config` for `conf` here.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::check_unique_names;
use crate::{
    FieldPath, Problems,
    address::{check_port, split_host_port},
    kinds::mesh::{
        BackendConf, DatadogTracing, FileLogging, Logging, LoggingBackend, TcpLogging, Tracing, TracingBackend,
        ZipkinTracing,
    },
    uri,
};

pub(super) fn check_logging(logging: &Logging, at: &FieldPath<'_>, problems: &mut Problems) {
    let at_backends = at.field("backends");
    for (n, backend) in logging.backends.iter().enumerate() {
        check_logging_backend(backend, &at_backends.index(n), problems);
    }
    check_unique_names(logging.backends.iter().map(|backend| backend.name.as_str()), &at_backends, problems);
    let found = logging.default_backend.is_empty() || logging.backend(None).is_some();
    problems.require(found, &at.field("defaultBackend"), "has to be set to one of the logging backend in mesh");
}

fn check_logging_backend(backend: &LoggingBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    let LoggingBackend { name, format: _, backend_type, conf } = backend;
    problems.require(!name.is_empty(), &at.field("name"), "cannot be empty");
    let at_conf = at.field("config");
    match backend_type.as_str() {
        "file" => {
            if let Some(FileLogging { path }) = read(conf.as_ref(), &at_conf, problems) {
                problems.require(!path.is_empty(), &at_conf.field("path"), "cannot be empty");
            }
        }
        "tcp" => {
            let Some(TcpLogging { address }) = read(conf.as_ref(), &at_conf, problems) else { return };
            let at = at_conf.field("address");
            if address.is_empty() {
                problems.add(&at, "cannot be empty");
            } else {
                problems.require(split_host_port(&address).is_some(), &at, "has to be in format of HOST:PORT");
            }
        }
        _ => problems.add(&at.field("type"), r#"unknown backend type. Available backends: "tcp", "file""#),
    }
}

pub(super) fn check_tracing(tracing: &Tracing, at: &FieldPath<'_>, problems: &mut Problems) {
    let at_backends = at.field("backends");
    for (n, backend) in tracing.backends.iter().enumerate() {
        check_tracing_backend(backend, &at_backends.index(n), problems);
    }
    check_unique_names(tracing.backends.iter().map(|backend| backend.name.as_str()), &at_backends, problems);
    let found = tracing.default_backend.is_empty() || tracing.backend(None).is_some();
    problems.require(found, &at.field("defaultBackend"), "has to be set to one of the tracing backend in mesh");
}

fn check_tracing_backend(backend: &TracingBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    let TracingBackend { name, sampling, backend_type, conf } = backend;
    problems.require(!name.is_empty(), &at.field("name"), "cannot be empty");
    let in_range = sampling.is_none_or(|percent| (0.0..=100.0).contains(&percent));
    problems.require(in_range, &at.field("sampling"), "has to be in [0.0 - 100.0] range");
    let at_conf = at.field("config");
    match backend_type.as_str() {
        "zipkin" => {
            if let Some(zipkin) = read(conf.as_ref(), &at_conf, problems) {
                check_zipkin(&zipkin, &at_conf, problems);
            }
        }
        "datadog" => {
            if let Some(DatadogTracing { address, port, split_service: _ }) = read(conf.as_ref(), &at_conf, problems) {
                problems.require(!address.is_empty(), &at_conf.field("address"), "cannot be empty");
                check_port(port, &at_conf.field("port"), problems);
            }
        }
        _ => problems.add(&at.field("type"), r#"unknown backend type. Available backends: "zipkin", "datadog""#),
    }
}

fn check_zipkin(zipkin: &ZipkinTracing, at: &FieldPath<'_>, problems: &mut Problems) {
    let ZipkinTracing { url, trace_id_128_bit: _, api_version, shared_span_context: _ } = zipkin;
    problems.require(
        matches!(api_version.as_str(), "" | "httpJsonV1" | "httpJson" | "httpProto"),
        &at.field("apiVersion"),
        "has invalid value. Allowed values: httpJsonV1, httpJson, httpProto",
    );
    let at = at.field("url");
    match uri::parse(url) {
        _ if url.is_empty() => problems.add(&at, "cannot be empty"),
        None => problems.add(&at, "invalid URL"),
        Some(uri) => problems.require(!uri.port.is_empty(), &at, "port has to be explicitly specified"),
    }
}

fn read<T: DeserializeOwned + JsonSchema>(
    conf: Option<&BackendConf>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) -> Option<T> {
    match BackendConf::read(conf) {
        Ok(conf) => Some(conf),
        Err(error) => {
            problems.add(at, format!("could not parse config: {error}"));
            None
        }
    }
}
