//! Whether proxies at two steps accept each other.

use crate::{AppliedIdentity, AppliedProvider, InboundTls, Issuers, Rollout};

impl Rollout {
    /// Whether a client at one step and a server at the other accept each other, both ways, whatever mode policies set.
    ///
    /// It looks at steps alone, so it is `false` where that depends on the proxies of the mesh. It relies on each step
    /// trusting the CAs of its own issuers.
    pub fn is_compatible(&self, other: &Self) -> bool {
        self.can_call(other) && other.can_call(self)
    }

    /// Whether servers at `server` accept clients at this step.
    fn can_call(&self, server: &Self) -> bool {
        self.plain_text_is_accepted(server) && self.mtls_is_accepted(server)
    }

    fn plain_text_is_accepted(&self, server: &Self) -> bool {
        let refuses = server.may_refuse_plaintext() && !server.issuers.is_empty();
        // Nobody with a certificate sends plain text to a server with one.
        !refuses || self.call && self.all_issuers().all(|issuers| issuers.covers(&server.issuers))
    }

    fn mtls_is_accepted(&self, server: &Self) -> bool {
        if !self.call || self.issuers.is_empty() {
            return true;
        }
        server.accept != InboundTls::Plaintext
            // Clients use mTLS with servers that have a certificate of all issuers.
            && self.all_issuers().any(|issuers| server.issuers.covers(issuers))
            && self.trusts_certificates_of(server)
            && server.trusts_certificates_of(self)
            && self.expects_certificates_of(server)
    }

    fn trusts_certificates_of(&self, other: &Self) -> bool {
        let Issuers { signer, identities, presented: _ } = &other.issuers;
        let trusts = |identity: &&AppliedIdentity| match &identity.provider {
            // The agent decides which CAs are trusted.
            None | Some(AppliedProvider::Spire { .. }) => true,
            Some(AppliedProvider::Bundled { ca, .. }) => {
                let is_own = |own: &AppliedIdentity| {
                    own.trust_domain == identity.trust_domain
                        && matches!(&own.provider, Some(AppliedProvider::Bundled { ca: of_own, .. }) if of_own == ca)
                };
                let in_domain =
                    |step: &Self| step.trust_domains.get(&identity.trust_domain).cloned().unwrap_or_default();
                let (known, needed) = (in_domain(self), in_domain(other));
                self.all_issuers().flat_map(|issuers| &issuers.identities).any(|own| is_own(own))
                    || !needed.is_empty() && needed.iter().all(|ca| known.contains(ca))
            }
        };
        signer.iter().all(|signer| self.trust.contains(signer))
            && identities.iter().map(|identity| &**identity).all(|identity| trusts(&identity))
    }

    /// The SPIFFE IDs of certificates of a backend are always expected.
    fn expects_certificates_of(&self, server: &Self) -> bool {
        server.issuers.identities.iter().all(|identity| identity.provider.is_none()) || self.expects(server)
    }
}

impl Issuers {
    /// Whether every proxy with a certificate of `other` has one of these.
    fn covers(&self, other: &Self) -> bool {
        let issuing = |issuers: &Self| {
            let issuing = issuers.identities.iter().filter(|identity| identity.provider.is_some());
            issuing.map(|identity| identity.selector.0.clone()).collect::<Vec<_>>()
        };
        let own = issuing(self);
        let selects_all = |labels: &std::collections::BTreeMap<String, String>| {
            own.iter().any(|selector| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
        };
        // Kept labels decide which MeshIdentity selects a proxy.
        self.signer.is_some()
            || other.signer.is_none() && self.presented == other.presented && issuing(other).iter().all(selects_all)
    }
}
