//! TLS settings of a MeshExternalService.
//!
//! **Invariant:** verification that cannot be configured as requested is an error; it is never weakened.

use std::sync::Arc;

use kodiak_model::address::is_ip;
use kodiak_model::kinds::mesh_external_service::{
    Endpoint, SanMatch, SanMatchType, Source, Tls, Verification, VerificationMode,
};
use kodiak_model::tls::{TlsVersion, TlsVersions};
use kodiak_model::{Choice, Word};

use crate::input::{ExternalCa, ExternalName, ExternalTls};

/// Reads a source: a Secret of the mesh, or inline bytes. The error says why it cannot be read.
type Read<'a> = &'a mut dyn FnMut(&Source) -> Result<Arc<str>, String>;

/// A certificate and its private key.
type Pair = (Arc<str>, Arc<str>);

/// `None` when TLS is disabled. `system_ca` is the CA file path that the proxy reported; a source that the mode does
/// not need is never read. Errors name the field.
pub fn tls(
    spec: &Tls,
    endpoints: &[Endpoint],
    system_ca: Option<&str>,
    read: Read<'_>,
) -> Result<Option<ExternalTls>, String> {
    let Tls { enabled, version, allow_renegotiation, verification } = spec;
    if !enabled {
        return Ok(None);
    }
    let unwritten = Verification::default();
    let verification = verification.as_ref().unwrap_or(&unwritten);
    let checks = Checks::of(known(&verification.mode, "verification.mode")?);
    let called = called(verification, endpoints, checks);
    let authority = if checks.authority { authority(verification, system_ca, read)? } else { ExternalCa::Unverified };
    Ok(Some(ExternalTls {
        versions: version.as_ref().map_or(Ok((None, None)), versions)?,
        allow_renegotiation: *allow_renegotiation,
        // An IP address is not a valid SNI (RFC 6066, section 3).
        sni: called.filter(|name| !is_ip(name)).map(str::to_owned),
        names: if checks.authority && checks.names { names(verification, called)? } else { Vec::new() },
        authority,
        client: if checks.shows_client { client(verification, read)? } else { None },
    }))
}

/// Which checks a mode leaves enabled. SANs are only verified together with the CA, since without one they could be
/// forged.
#[derive(Clone, Copy)]
struct Checks {
    authority: bool,
    names: bool,
    shows_client: bool,
}

impl Checks {
    fn of(mode: VerificationMode) -> Self {
        let all = Self { authority: true, names: true, shows_client: true };
        match mode {
            VerificationMode::Secured => all,
            VerificationMode::SkipSan => Self { names: false, ..all },
            VerificationMode::SkipCa => Self { authority: false, ..all },
            VerificationMode::SkipAll => Self { authority: false, names: false, shows_client: false },
        }
    }
}

/// The configured server name, or else the first endpoint. Certificates are issued without the trailing dot of a name.
fn called<'a>(verification: &'a Verification, endpoints: &'a [Endpoint], checks: Checks) -> Option<&'a str> {
    let written = verification.server_name.as_deref().filter(|name| checks.names && !name.is_empty());
    let first = || endpoints.first().map(|endpoint| endpoint.address.as_str());
    written.or_else(first).map(|name| name.strip_suffix('.').unwrap_or(name))
}

/// Without SANs, every certificate of the CA would be accepted.
fn names(verification: &Verification, called: Option<&str>) -> Result<Vec<ExternalName>, String> {
    let listed = verification.subject_alt_names.iter().flatten().enumerate().map(|(n, san)| {
        let SanMatch { match_type, value } = san;
        if value.is_empty() {
            return Err(fault(&format!("verification.subjectAltNames[{n}].value"), "is empty: set a name"));
        }
        Ok(match known(match_type, &format!("verification.subjectAltNames[{n}].type"))? {
            SanMatchType::Exact => ExternalName::Exact(value.clone()),
            SanMatchType::Prefix => ExternalName::Prefix(value.clone()),
        })
    });
    let called = called.map(|name| Ok(ExternalName::Exact(name.to_owned())));
    let names: Vec<_> = called.into_iter().chain(listed).collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Err(fault("verification.serverName", "is missing, and there is no endpoint to derive it from: set it"));
    }
    Ok(names)
}

fn authority(verification: &Verification, system_ca: Option<&str>, read: Read<'_>) -> Result<ExternalCa, String> {
    if let Some(source) = &verification.ca_cert {
        return Ok(ExternalCa::Given(pem(source, "verification.caCert", "CERTIFICATE", read)?));
    }
    let path = system_ca.filter(|path| !path.is_empty()).ok_or_else(|| {
        let problem = "is missing, and the proxy did not report a CA file of its system: set caCert, or \
                       set verification.mode to SkipCA to trust any CA";
        fault("verification.caCert", problem)
    })?;
    Ok(ExternalCa::System(path.into()))
}

fn client(verification: &Verification, read: Read<'_>) -> Result<Option<Pair>, String> {
    match (&verification.client_cert, &verification.client_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let certificate = pem(certificate, "verification.clientCert", "CERTIFICATE", read)?;
            Ok(Some((certificate, pem(key, "verification.clientKey", "PRIVATE KEY", read)?)))
        }
        (Some(_), None) => Err(fault("verification.clientKey", "is required with clientCert")),
        (None, Some(_)) => Err(fault("verification.clientCert", "is required with clientKey")),
    }
}

/// Envoy would reject invalid PEM with an error that does not name the resource.
fn pem(source: &Source, field: &str, label: &str, read: Read<'_>) -> Result<Arc<str>, String> {
    let text = read(source).map_err(|why| format!("spec.tls.{field}: {why}"))?;
    let begins = |line: &str| {
        let between = line.trim().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        between.is_some_and(|found| found.ends_with(label))
    };
    if text.lines().any(begins) { Ok(text) } else { Err(fault(field, &format!("is not PEM with a {label}"))) }
}

fn versions(written: &TlsVersions) -> Result<(Option<TlsVersion>, Option<TlsVersion>), String> {
    let version = |choice: &Option<Choice<TlsVersion>>, field: &str| {
        let version = choice.as_ref().map(|choice| known(choice, field)).transpose()?;
        Ok::<_, String>(version.filter(|version| *version != TlsVersion::Auto))
    };
    Ok((version(&written.min, "version.min")?, version(&written.max, "version.max")?))
}

fn known<W: Word>(choice: &Choice<W>, field: &str) -> Result<W, String> {
    choice.known().ok_or_else(|| fault(field, &format!("is {:?}, which is unsupported", choice.as_str())))
}

fn fault(field: &str, problem: &str) -> String {
    format!("spec.tls.{field} {problem}")
}
