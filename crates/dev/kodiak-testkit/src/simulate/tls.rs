//! TLS, as far as names and the issuer decide it. Keys and signatures are assumed to be valid.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::core::v3::{DataSource, TransportSocket, data_source, transport_socket};
use kodiak_envoy::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, Secret, SpiffeCertValidatorConfig,
    SubjectAltNameMatcher, UpstreamTlsContext, secret,
};
use kodiak_envoy::{TypeUrl, unpack};

use super::refusal::{Refusal, refuse_if};
use super::request::{Connection, TlsPeer};
use super::strings;

/// TLS settings of an upstream connection.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTls {
    pub sni: String,
    pub alpn: Vec<String>,
    expected: Expected,
}

/// Accepted peers.
#[derive(Debug, Clone, PartialEq, Default)]
struct Expected {
    names: Vec<SubjectAltNameMatcher>,
    trusted: Trusted,
}

/// Trusted CA certificates.
#[derive(Debug, Clone, PartialEq, Default)]
enum Trusted {
    #[default]
    All,
    Cas(String),
    /// By the trust domain of the SPIFFE ID.
    Domains(BTreeMap<String, String>),
}

impl UpstreamTls {
    /// Whether a server with these URIs is accepted. `issuer`: CA certificate of its issuer, `None` if it is trusted.
    pub fn check(&self, uris: &[String], issuer: Option<&str>) -> Result<(), Refusal> {
        let refuse = |reason| Refusal::Handshake { with: "the endpoint".to_owned(), reason };
        self.expected.check(uris, issuer)?.map_err(refuse)
    }

    /// The client of a connection with these settings.
    pub fn peer(&self, uris: Vec<String>, issuer: Option<String>) -> TlsPeer {
        TlsPeer { uris, issuer, sni: self.sni.clone(), alpn: self.alpn.clone() }
    }
}

/// Validation contexts by the name of their secret.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(BTreeMap<String, CertificateValidationContext>);

impl Secrets {
    pub(super) fn new(secrets: Vec<Secret>) -> Self {
        let validation = |Secret { name, r#type }| match r#type {
            Some(secret::Type::ValidationContext(context)) => Some((name, context)),
            _ => None,
        };
        Self(secrets.into_iter().filter_map(validation).collect())
    }

    fn get(&self, name: &str) -> Result<&CertificateValidationContext, Refusal> {
        self.0.get(name).ok_or_else(|| Refusal::unsupported(format!("a TLS context without its secret {name:?}")))
    }
}

pub(super) fn upstream(socket: Option<&TransportSocket>, secrets: &Secrets) -> Result<Option<UpstreamTls>, Refusal> {
    let Some(context) = context::<UpstreamTlsContext>(socket)? else { return Ok(None) };
    refuse_if(context.auto_host_sni || context.auto_sni_san_validation, "a server name that follows the host")?;
    let common = context.common_tls_context.unwrap_or_default();
    let expected = Expected::read(&common, secrets)?;
    Ok(Some(UpstreamTls { sni: context.sni, alpn: common.alpn_protocols, expected }))
}

/// URIs of the caller where the chain terminates TLS, `None` where it passes connections through.
pub(super) fn accept<'a>(
    listener: &str,
    socket: Option<&TransportSocket>,
    connection: &'a Connection,
    secrets: &Secrets,
) -> Result<Option<&'a [String]>, Refusal> {
    let Some(context) = context::<DownstreamTlsContext>(socket)? else { return Ok(None) };
    let refuse = |reason: String| Refusal::Handshake { with: listener.to_owned(), reason };
    let peer = connection.tls.as_ref().ok_or_else(|| refuse("the caller does not speak TLS".to_owned()))?;
    if context.require_sni == Some(true) && peer.sni.is_empty() {
        return Err(refuse("the caller names no server".to_owned()));
    }
    if peer.uris.is_empty() {
        let required = context.require_client_certificate == Some(true);
        return if required { Err(refuse("the caller has no certificate".to_owned())) } else { Ok(Some(&[])) };
    }
    let expected = Expected::read(&context.common_tls_context.unwrap_or_default(), secrets)?;
    expected.check(&peer.uris, peer.issuer.as_deref())?.map_err(refuse)?;
    Ok(Some(&peer.uris))
}

impl Expected {
    #[allow(deprecated, reason = "Envoy still takes the older forms")]
    fn read(common: &CommonTlsContext, secrets: &Secrets) -> Result<Self, Refusal> {
        let context = match &common.validation_context_type {
            None => return Ok(Self::default()),
            Some(ValidationContextType::ValidationContextSdsSecretConfig(secret)) => Some(secrets.get(&secret.name)?),
            Some(ValidationContextType::ValidationContext(context)) => Some(context),
            Some(ValidationContextType::CombinedValidationContext(combined)) => {
                combined.default_validation_context.as_ref()
            }
            Some(_) => return Err(Refusal::unsupported("certificate providers")),
        };
        let none = CertificateValidationContext::default();
        let context = context.unwrap_or(&none);
        let by_hash = !context.verify_certificate_hash.is_empty() || !context.verify_certificate_spki.is_empty();
        refuse_if(by_hash || !context.match_subject_alt_names.is_empty(), "certificates by hash or untyped name")?;
        let trusted = match context.custom_validator_config.as_ref().map(|config| config.typed_config.as_ref()) {
            None => context.trusted_ca.as_ref().map_or(Ok(Trusted::All), |cas| text(cas).map(Trusted::Cas))?,
            Some(Some(config)) => {
                let spiffe: SpiffeCertValidatorConfig = unpack(config).map_err(malformed)?;
                refuse_if(spiffe.trust_bundles.is_some(), "trust domains in a bundle")?;
                let domains = spiffe.trust_domains.into_iter().map(|domain| {
                    let cas = domain.trust_bundle.as_ref().map_or(Ok(String::new()), text)?;
                    Ok((domain.name, cas))
                });
                Trusted::Domains(domains.collect::<Result<_, Refusal>>()?)
            }
            Some(None) => return Err(Refusal::unsupported("an empty certificate validator")),
        };
        Ok(Self { names: context.match_typed_subject_alt_names.clone(), trusted })
    }

    /// The inner error is why the peer is rejected.
    fn check(&self, uris: &[String], issuer: Option<&str>) -> Result<Result<(), String>, Refusal> {
        let is_issued = |cas: &String| issuer.is_none_or(|issuer| cas.contains(issuer));
        match &self.trusted {
            Trusted::All => (),
            Trusted::Cas(cas) if is_issued(cas) => (),
            Trusted::Cas(_) => return Ok(Err(format!("the CA of {uris:?} is not trusted"))),
            Trusted::Domains(domains) => {
                let domain = |uri: &String| Some(uri.strip_prefix("spiffe://")?.split('/').next()?.to_owned());
                let mut cas = uris.iter().filter_map(domain).filter_map(|domain| domains.get(&domain)).peekable();
                if cas.peek().is_none() {
                    return Ok(Err(format!("{uris:?} are in no trusted domain of {:?}", domains.keys())));
                }
                if !cas.any(is_issued) {
                    return Ok(Err(format!("the CA of {uris:?} is not trusted in its domain")));
                }
            }
        }
        if self.names.is_empty() {
            return Ok(Ok(()));
        }
        for name in self.names.iter().filter(|name| name.san_type == i32::from(SanType::Uri)) {
            for uri in uris {
                if name.matcher.as_ref().map(|matcher| strings::matches(matcher, uri)).transpose()? == Some(true) {
                    return Ok(Ok(()));
                }
            }
        }
        Ok(Err(format!("none of {uris:?} is the name that is expected")))
    }
}

fn context<M: TypeUrl>(socket: Option<&TransportSocket>) -> Result<Option<M>, Refusal> {
    let Some(socket) = socket else { return Ok(None) };
    match &socket.config_type {
        Some(transport_socket::ConfigType::TypedConfig(config)) if config.type_url == RawBuffer::TYPE_URL => Ok(None),
        Some(transport_socket::ConfigType::TypedConfig(config)) => unpack(config).map(Some).map_err(malformed),
        None => Err(Refusal::unsupported(format!("the transport socket {}", socket.name))),
    }
}

fn text(source: &DataSource) -> Result<String, Refusal> {
    match &source.specifier {
        Some(data_source::Specifier::InlineBytes(bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Some(data_source::Specifier::InlineString(text)) => Ok(text.clone()),
        // The path stands for the CAs in the file.
        Some(data_source::Specifier::Filename(path)) => Ok(path.clone()),
        Some(data_source::Specifier::EnvironmentVariable(_)) | None => {
            Err(Refusal::unsupported("CAs outside of the configuration"))
        }
    }
}

pub(super) fn malformed(error: impl std::fmt::Display) -> Refusal {
    Refusal::unsupported(error.to_string())
}
