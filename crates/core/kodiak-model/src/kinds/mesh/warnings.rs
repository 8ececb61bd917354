//! Warnings about fields without effect.

use super::{
    BackendConf, BuiltinCa, DatadogTracing, FileLogging, Mesh, Prometheus, ProvidedCa, TcpLogging, ZipkinTracing,
};
use crate::FieldPath;

/// The settings of a backend are validated only once its type is known, so their unknown fields are found here.
pub(super) fn warnings(mesh: &Mesh) -> Vec<String> {
    let Mesh { mtls, tracing, logging, metrics, mesh_services, .. } = mesh;
    let mut warnings = Vec::new();
    for (n, backend) in mtls.iter().flat_map(|mtls| &mtls.backends).enumerate() {
        let reader = match backend.backend_type.as_str() {
            "builtin" => BackendConf::unknown_fields::<BuiltinCa>,
            "provided" => BackendConf::unknown_fields::<ProvidedCa>,
            _ => continue,
        };
        warnings.extend(in_conf("mtls", n, backend.conf.as_ref(), reader));
    }
    for (n, backend) in tracing.iter().flat_map(|tracing| &tracing.backends).enumerate() {
        let reader = match backend.backend_type.as_str() {
            "zipkin" => BackendConf::unknown_fields::<ZipkinTracing>,
            "datadog" => BackendConf::unknown_fields::<DatadogTracing>,
            _ => continue,
        };
        warnings.extend(in_conf("tracing", n, backend.conf.as_ref(), reader));
    }
    for (n, backend) in logging.iter().flat_map(|logging| &logging.backends).enumerate() {
        let reader = match backend.backend_type.as_str() {
            "file" => BackendConf::unknown_fields::<FileLogging>,
            "tcp" => BackendConf::unknown_fields::<TcpLogging>,
            _ => continue,
        };
        warnings.extend(in_conf("logging", n, backend.conf.as_ref(), reader));
    }
    for (n, backend) in metrics.iter().flat_map(|metrics| &metrics.backends).enumerate() {
        warnings.extend(in_conf("metrics", n, backend.conf.as_ref(), BackendConf::unknown_fields::<Prometheus>));
    }
    let unknown = mesh_services.iter().flat_map(|services| &services.unknown);
    warnings.extend(unknown.map(|field| format!("unknown field meshServices.{field} is ignored")));
    warnings
}

type Reader = fn(Option<&BackendConf>, &FieldPath<'_>) -> Vec<String>;

fn in_conf(section: &str, n: usize, conf: Option<&BackendConf>, reader: Reader) -> Vec<String> {
    let at = FieldPath::ROOT.field(section);
    let at = at.field("backends");
    let at = at.index(n);
    reader(conf, &at.field("conf"))
}
