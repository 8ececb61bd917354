//! Validation of `mtls`. Certificates are not validated here: they may be in Secrets.

use super::check_unique_names;
use crate::{
    FieldPath, Problems,
    address::is_dns_name,
    data_source::DataSource,
    kinds::mesh::{BackendConf, BuiltinCa, Mtls, MtlsBackend, ProvidedCa, Rotation, parse_period},
};

/// Two are enough to change from one CA to another; each builtin one costs a key of its own.
const BACKENDS_MAX: usize = 10;
const NAME_MAX: usize = 255;

pub(super) fn check(mtls: &Mtls, at: &FieldPath<'_>, problems: &mut Problems) {
    let Mtls { enabled_backend, backends, skip_validation } = mtls;
    let at_backends = at.field("backends");
    if backends.len() > BACKENDS_MAX {
        problems.add(&at_backends, format!("cannot have more than {BACKENDS_MAX} backends"));
    }
    check_unique_names(backends.iter().map(|backend| backend.name.as_str()), &at_backends, problems);
    if !enabled_backend.is_empty() && mtls.enabled_backend().is_none() {
        problems.add(&at.field("enabledBackend"), "has to be set to one of the backends in the mesh");
    }
    for (n, backend) in backends.iter().enumerate() {
        check_dp_cert(backend, at, problems);
        check_backend(backend, *skip_validation, &at_backends.index(n), problems);
    }
}

fn check_dp_cert(backend: &MtlsBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(dp_cert) = &backend.dp_cert else { return };
    let expiration = dp_cert.rotation.as_ref().map_or("", |Rotation { expiration }| expiration);
    if parse_period(expiration).is_none() {
        // Kuma's path: without the backend, and in lower case.
        let at = at.field("dpcert");
        let at = at.field("rotation");
        problems.add(&at.field("expiration"), "has to be a valid format");
    }
}

fn check_backend(backend: &MtlsBackend, skip_conf: bool, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Some(mode) = &backend.mode {
        mode.check(at, "mode", problems);
    }
    let check_conf = match backend.backend_type.as_str() {
        "builtin" => check_builtin,
        "provided" => check_provided,
        _ => {
            problems.add(&at.field("type"), "could not find installed plugin for this type");
            return;
        }
    };
    if !skip_conf {
        check_conf(backend, &at.field("conf"), problems);
    }
}

fn check_builtin(backend: &MtlsBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    match BackendConf::read::<BuiltinCa>(backend.conf.as_ref()) {
        Err(error) => problems.add(at, format!("could not convert backend config: {error}")),
        Ok(BuiltinCa { ca_cert }) => {
            let expiration = ca_cert.map(|cert| cert.expiration).unwrap_or_default();
            let valid = expiration.is_empty() || parse_period(&expiration).is_some();
            problems.require(valid, &at.field("caCert").field("expiration"), "has to be a valid format");
        }
    }
    // The name becomes part of the names of Secrets. The path is Kuma's.
    let at = at.field("mtls");
    let at = at.field("backends");
    let at = at.field("name");
    let name = &backend.name;
    if name.len() > NAME_MAX {
        problems.add(&at, format!("Backend name is too long. Max length: {NAME_MAX}"));
    } else if !is_dns_name(name) {
        problems.add(&at, format!("{name:?} name must be valid dns name"));
    }
}

fn check_provided(backend: &MtlsBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    match BackendConf::read::<ProvidedCa>(backend.conf.as_ref()) {
        Err(error) => problems.add(at, format!("could not convert backend config: {error}")),
        Ok(ProvidedCa { cert, key }) => {
            check_source(cert.as_ref(), &at.field("cert"), problems);
            check_source(key.as_ref(), &at.field("key"), problems);
        }
    }
}

fn check_source(source: Option<&DataSource>, at: &FieldPath<'_>, problems: &mut Problems) {
    match source {
        None => problems.add(at, "has to be defined"),
        Some(source) => problems.require(
            source.is_chosen(),
            at,
            "data source has to be chosen. Available sources: secret, file, inline",
        ),
    }
}
