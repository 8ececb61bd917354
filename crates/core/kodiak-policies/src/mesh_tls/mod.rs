//! MeshTLS: TLS mode of inbounds, TLS versions and ciphers.

mod check;
mod envoy;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{Conf, MeshTLS, Mode, Rule, TlsCipher};

use crate::target::Tls;
use crate::{Entry, Policy, from_to};

pub const POLICY: Option<&dyn Policy> = Some(&TlsSettings);

pub static KIND: Kind = Kind::policy(
    "MeshTLS",
    "meshtlses",
    "mtls",
    PolicyFacts { to: false, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 300 },
    Language::of::<MeshTLS>(),
);

const NO_ECDSA: &str = "tlsCiphers has no ECDHE-ECDSA cipher, and certificates of proxies have ECDSA keys: connections \
                        with TLS 1.2 fail. Add one, or set tlsVersion.max to TLS13";

/// Applies the policy to proxies.
struct TlsSettings;

impl Policy for TlsSettings {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn needs_mtls(&self) -> bool {
        true
    }

    fn configures_tls(&self) -> bool {
        true
    }

    fn tls(&self, entries: &[Entry], tls: &mut Tls) {
        envoy::tls(entries, tls);
    }
}

impl Spec for MeshTLS {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        if from_to::is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings.extend(self.confs().any(Conf::excludes_tls12).then(|| NO_ECDSA.to_owned()));
        warnings
    }
}
