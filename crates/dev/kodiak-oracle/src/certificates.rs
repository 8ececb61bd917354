//! Certificates as readable text: the issuer and the URIs in place of a signature.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_engine::{ClientPair, Identities, Leaf, LeafIssuer, LeafRequest, offline::Placeholders};
use kodiak_model::{Kri, ProxyKey, kinds::mesh_external_service::Source};
use kodiak_rollout::AppliedBackend;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;
use xxhash_rust::xxh3::xxh3_128;

const ISSUER: &str = "issuer ";
const URI: &str = "uri ";

/// Issues certificates that [`Certificate::read`] reads again.
pub struct Certificates;

/// Certificate of a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// CA certificate of its issuer, as trust bundles contain it.
    pub issuer: String,
    pub uris: Vec<String>,
}

impl Certificate {
    pub(crate) fn read(text: &str) -> Self {
        let lines = |start| text.lines().filter_map(move |line| line.strip_prefix(start)).map(str::to_owned);
        Self { issuer: lines(ISSUER).collect(), uris: lines(URI).collect() }
    }

    fn text(&self) -> String {
        let uris = self.uris.iter().map(|uri| format!("{URI}{uri}"));
        [format!("{ISSUER}{}", self.issuer)].into_iter().chain(uris).collect::<Vec<_>>().join("\n")
    }
}

/// CA certificate of a backend of the mesh.
fn ca(AppliedBackend { name, ca }: &AppliedBackend) -> String {
    format!("ca<{name} {}>", ca.as_deref().unwrap_or_default())
}

impl Identities for Certificates {
    fn leaf(&self, request: &LeafRequest, _: Timestamp) -> Result<Arc<Leaf>, String> {
        let issuer = match &request.issuer {
            LeafIssuer::Backend(backend) => ca(backend),
            LeafIssuer::Identity { ca, .. } => ca.to_string(),
        };
        let text = Certificate { issuer, uris: request.uris.to_vec() }.text();
        Ok(Arc::new(Leaf {
            serial: "1".into(),
            spiffe_id: request.uris.first().map_or("", String::as_str).into(),
            version: Version(xxh3_128(text.as_bytes())),
            identity: Identity { certificate: text.into(), key: "key".into() },
            not_after: Timestamp::MAX,
            renew_at: Timestamp::MAX,
        }))
    }

    fn roots(&self, _: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        Ok(ca(backend).into())
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        Placeholders.source(mesh, source)
    }

    fn client_pair(&self, service: &Kri, pair: ClientPair) -> Result<ClientPair, String> {
        Placeholders.client_pair(service, pair)
    }

    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        Placeholders.admin(proxy)
    }
}
