//! Connections that one inbound accepts at a step of the rollout.

use kodiak_model::{InboundTls, kinds::mesh::MtlsMode};

use crate::Rollout;

/// Issuer of the certificate of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateSource {
    /// The server has no certificate.
    None,
    Backend,
    MeshIdentity,
}

impl Rollout {
    /// Connections that an inbound accepts. `mode` is that of the policies that select it.
    ///
    /// The rollout comes first: an inbound is never stricter than all clients are ready for. A policy may loosen it at any
    /// time. Without one, a server with the certificate of a MeshIdentity is strict.
    pub fn accepts(&self, certificate: CertificateSource, mode: Option<MtlsMode>) -> InboundTls {
        let mode = match certificate {
            CertificateSource::None => return InboundTls::Plaintext,
            CertificateSource::Backend => mode,
            CertificateSource::MeshIdentity => mode.or(Some(MtlsMode::Strict)),
        };
        match (self.accept, mode) {
            (InboundTls::Plaintext, _) => InboundTls::Plaintext,
            (_, Some(MtlsMode::Permissive)) => InboundTls::Permissive,
            (_, Some(MtlsMode::Strict)) if self.may_refuse_plaintext() => InboundTls::Strict,
            (accept @ (InboundTls::Permissive | InboundTls::Strict), _) => accept,
        }
    }

    /// Whether an inbound may refuse plain text: all clients have acknowledged that they use mTLS.
    pub fn may_refuse_plaintext(&self) -> bool {
        match self.accept {
            InboundTls::Plaintext => false,
            InboundTls::Permissive => self.strict_allowed,
            InboundTls::Strict => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Option<MtlsMode>; 3] = [None, Some(MtlsMode::Permissive), Some(MtlsMode::Strict)];

    fn at(accept: InboundTls, strict_allowed: bool) -> Rollout {
        Rollout { accept, strict_allowed, ..Rollout::default() }
    }

    /// Without a mode, with Permissive, with Strict.
    fn accepts(step: &Rollout, certificate: CertificateSource) -> [InboundTls; 3] {
        MODES.map(|mode| step.accepts(certificate, mode))
    }

    #[test]
    fn inbound_accepts_the_mode_of_policies_as_far_as_the_rollout_is() {
        use CertificateSource::{Backend, MeshIdentity};
        use InboundTls::{Permissive, Plaintext, Strict};
        for (accept, strict_allowed, by_backend, by_identity) in [
            (Plaintext, false, [Plaintext; 3], [Plaintext; 3]),
            (Permissive, false, [Permissive; 3], [Permissive; 3]),
            (Permissive, true, [Permissive, Permissive, Strict], [Strict, Permissive, Strict]),
            (Strict, false, [Strict, Permissive, Strict], [Strict, Permissive, Strict]),
        ] {
            let step = at(accept, strict_allowed);
            assert_eq!(accepts(&step, Backend), by_backend, "{accept:?} {strict_allowed}");
            assert_eq!(accepts(&step, MeshIdentity), by_identity, "{accept:?} {strict_allowed}");
            assert_eq!(accepts(&step, CertificateSource::None), [Plaintext; 3], "{accept:?} {strict_allowed}");
        }
    }
}
