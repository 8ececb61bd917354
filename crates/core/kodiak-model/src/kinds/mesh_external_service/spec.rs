//! Spec of a MeshExternalService.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, extension::Extension, tls::TlsVersions, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["match"]))]
pub struct MeshExternalService {
    /// How clients in the mesh address the service.
    #[serde(rename = "match")]
    pub matching: Match,
    /// With an extension, endpoints and TLS are handled by the extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
    /// Addresses of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<Endpoint>>,
    /// TLS to the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

words! {
    pub enum MatchType {
        HostnameGenerator = "HostnameGenerator",
    }
}

words! {
    pub enum MatchProtocol {
        Tcp = "tcp",
        Grpc = "grpc",
        Http = "http",
        Http2 = "http2",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct Match {
    #[serde(rename = "type")]
    pub match_type: Choice<MatchType>,
    /// The port that clients connect to.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// Protocol that clients use. `tcp` by default.
    pub protocol: Choice<MatchProtocol>,
}

impl Default for Match {
    fn default() -> Self {
        Self { match_type: MatchType::HostnameGenerator.into(), port: 0, protocol: MatchProtocol::Tcp.into() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "port"]))]
pub struct Endpoint {
    /// An IP address or a hostname.
    #[schemars(length(min = 1))]
    pub address: String,
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// Endpoints with a higher number are used only when those with lower numbers are unhealthy. 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub priority: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tls {
    /// Whether the proxy originates TLS. `false` by default: clients may do it themselves.
    pub enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<TlsVersions>,
    /// Allow TLS renegotiation. `false` by default, which is safer.
    pub allow_renegotiation: bool,
    /// Verification of the endpoint's certificate, and the proxy's client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

words! {
    pub enum VerificationMode {
        SkipSan = "SkipSAN",
        SkipCa = "SkipCA",
        Secured = "Secured",
        SkipAll = "SkipAll",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Verification {
    /// Which checks are skipped. `Secured` by default: none.
    pub mode: Choice<VerificationMode>,
    /// SNI sent to the endpoint. The first endpoint by default, if it is a hostname.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// SANs of which the endpoint's certificate must have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_alt_names: Option<Vec<SanMatch>>,
    /// CA of the endpoint's certificate. The operating system's CAs by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<Source>,
    /// Requires `clientKey`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<Source>,
    /// Requires `clientCert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<Source>,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            mode: VerificationMode::Secured.into(),
            server_name: None,
            subject_alt_names: None,
            ca_cert: None,
            client_cert: None,
            client_key: None,
        }
    }
}

words! {
    pub enum SanMatchType {
        Exact = "Exact",
        Prefix = "Prefix",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["value"]))]
pub struct SanMatch {
    /// `Exact` by default.
    #[serde(rename = "type")]
    pub match_type: Choice<SanMatchType>,
    pub value: String,
}

impl Default for SanMatch {
    fn default() -> Self {
        Self { match_type: SanMatchType::Exact.into(), value: String::new() }
    }
}

/// Source of a certificate or key. Never a file: that would be a file of the control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// Name of a Secret in the same mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_string: Option<String>,
}
