//! Certificates and mTLS rollouts of meshes.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::gauge;

#[derive(Clone, Default)]
pub struct MeshMetrics {
    certificates: Family<CertificateLabels, Gauge>,
    mtls_waiting: Family<MeshLabels, Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabels {
    mesh: String,
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MeshLabels {
    mesh: String,
}

impl MeshMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "certificate_expiry_seconds",
            "Time until the first certificate in use expires",
            self.certificates.clone(),
        );
        registry.register(
            "mtls_step_waiting_proxies",
            "Proxies that the next step of mTLS waits for, by mesh",
            self.mtls_waiting.clone(),
        );
    }

    /// Certificates in use: the mesh, `leaf` or `ca`, and the seconds until the first of them expires.
    pub fn certificates<'a>(&self, first: impl IntoIterator<Item = (&'a str, &'static str, i64)>) {
        self.certificates.clear();
        for (mesh, kind, seconds) in first {
            let labels = CertificateLabels { mesh: mesh.to_owned(), kind: kind.to_owned() };
            self.certificates.get_or_create(&labels).set(seconds);
        }
    }

    /// Number of proxies that the next step of mTLS waits for. Meshes that are not given wait for none.
    pub fn mtls_waiting(&self, meshes: impl IntoIterator<Item = (impl Into<String>, usize)>) {
        self.mtls_waiting.clear();
        for (mesh, count) in meshes {
            self.mtls_waiting.get_or_create(&MeshLabels { mesh: mesh.into() }).set(gauge(count));
        }
    }
}
