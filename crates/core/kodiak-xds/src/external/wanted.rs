//! What a MeshExternalService wants of TLS.
//!
//! **Invariant:** what cannot be verified as the user wants it is an error, never verified less.

use std::sync::Arc;

use kodiak_model::address::is_ip;
use kodiak_model::kinds::mesh_external_service::{
    Endpoint, SanMatch, SanMatchType, Source, Tls, Verification, VerificationMode,
};
use kodiak_model::tls::{TlsVersion, TlsVersions};
use kodiak_model::{Choice, Word};

use crate::input::{ExternalAuthority, ExternalName, ExternalTls};

/// Reads a source: a Secret of the mesh, or what stands in the source itself. Or why there is nothing to read.
type Read<'a> = &'a mut dyn FnMut(&Source) -> Result<Arc<str>, String>;

/// A certificate and its key.
type Pair = (Arc<str>, Arc<str>);

/// `None` when it does not enable TLS. `system_ca` is the file that the proxy told; a source that the mode leaves out
/// is never read. What is wrong is told with its field.
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
    let authority =
        if checks.authority { authority(verification, system_ca, read)? } else { ExternalAuthority::Anybody };
    Ok(Some(ExternalTls {
        versions: version.as_ref().map_or(Ok((None, None)), versions)?,
        allow_renegotiation: *allow_renegotiation,
        // An address is no server name (RFC 6066, section 3).
        sni: called.filter(|name| !is_ip(name)).map(str::to_owned),
        names: if checks.authority && checks.names { names(verification, called)? } else { Vec::new() },
        authority,
        client: if checks.shows_client { client(verification, read)? } else { None },
    }))
}

/// What a mode leaves of the verification that is written. Names that anybody may have signed say nothing, so they
/// are checked only together with the authority.
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

/// The name that is written, or else the first endpoint. Certificates are not made for the dot at the end of a name.
fn called<'a>(verification: &'a Verification, endpoints: &'a [Endpoint], checks: Checks) -> Option<&'a str> {
    let written = verification.server_name.as_deref().filter(|name| checks.names && !name.is_empty());
    let first = || endpoints.first().map(|endpoint| endpoint.address.as_str());
    written.or_else(first).map(|name| name.strip_suffix('.').unwrap_or(name))
}

/// Without any, every certificate of the authority would do.
fn names(verification: &Verification, called: Option<&str>) -> Result<Vec<ExternalName>, String> {
    let listed = verification.subject_alt_names.iter().flatten().enumerate().map(|(n, san)| {
        let SanMatch { match_type, value } = san;
        if value.is_empty() {
            return Err(fault(&format!("verification.subjectAltNames[{n}].value"), "is empty: write a name"));
        }
        Ok(match known(match_type, &format!("verification.subjectAltNames[{n}].type"))? {
            SanMatchType::Exact => ExternalName::Exact(value.clone()),
            SanMatchType::Prefix => ExternalName::Prefix(value.clone()),
        })
    });
    let called = called.map(|name| Ok(ExternalName::Exact(name.to_owned())));
    let names: Vec<_> = called.into_iter().chain(listed).collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Err(fault("verification.serverName", "is missing, and there is no endpoint to take it from: write it"));
    }
    Ok(names)
}

fn authority(
    verification: &Verification,
    system_ca: Option<&str>,
    read: Read<'_>,
) -> Result<ExternalAuthority, String> {
    if let Some(source) = &verification.ca_cert {
        return Ok(ExternalAuthority::Given(pem(source, "verification.caCert", "CERTIFICATE", read)?));
    }
    let path = system_ca.filter(|path| !path.is_empty()).ok_or_else(|| {
        let problem = "is missing, and the proxy told no file with the certificates of its system: write caCert, or \
                       let verification.mode be SkipCA to trust everybody";
        fault("verification.caCert", problem)
    })?;
    Ok(ExternalAuthority::System(path.into()))
}

fn client(verification: &Verification, read: Read<'_>) -> Result<Option<Pair>, String> {
    match (&verification.client_cert, &verification.client_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let certificate = pem(certificate, "verification.clientCert", "CERTIFICATE", read)?;
            Ok(Some((certificate, pem(key, "verification.clientKey", "PRIVATE KEY", read)?)))
        }
        (Some(_), None) => Err(fault("verification.clientKey", "is missing, clientCert needs it")),
        (None, Some(_)) => Err(fault("verification.clientCert", "is missing, clientKey needs it")),
    }
}

/// Envoy would refuse what is no PEM without a word about whose it is.
fn pem(source: &Source, field: &str, label: &str, read: Read<'_>) -> Result<Arc<str>, String> {
    let text = read(source).map_err(|why| format!("spec.tls.{field}: {why}"))?;
    let begins = |line: &str| {
        let between = line.trim().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        between.is_some_and(|found| found.ends_with(label))
    };
    if text.lines().any(begins) { Ok(text) } else { Err(fault(field, &format!("has no {label} in PEM"))) }
}

fn versions(written: &TlsVersions) -> Result<(Option<TlsVersion>, Option<TlsVersion>), String> {
    let version = |choice: &Option<Choice<TlsVersion>>, field: &str| {
        let version = choice.as_ref().map(|choice| known(choice, field)).transpose()?;
        Ok::<_, String>(version.filter(|version| *version != TlsVersion::Auto))
    };
    Ok((version(&written.min, "version.min")?, version(&written.max, "version.max")?))
}

fn known<W: Word>(choice: &Choice<W>, field: &str) -> Result<W, String> {
    choice.known().ok_or_else(|| fault(field, &format!("is {:?}, which is not known", choice.as_str())))
}

fn fault(field: &str, problem: &str) -> String {
    format!("spec.tls.{field} {problem}")
}
