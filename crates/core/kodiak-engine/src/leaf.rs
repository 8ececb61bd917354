//! The certificate of one proxy: requested, renewed, and kept in use while the next one cannot be issued.
//!
//! **Invariant:** a certificate that cannot be issued holds up nothing else: the proxy keeps the one that it has, and gets the
//! trusted CAs and SPIFFE IDs with which another issuer can take over.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kodiak_identity::Issuer;
use kodiak_model::ProxyKey;
use kodiak_reachability::certificate;
use kodiak_rollout::{AppliedProvider, Rollout};
use kodiak_rules::Proxy;

use crate::{
    engine::{Issued, UpdateContext},
    identity::{Leaf, LeafIssuer, LeafRequest},
    view::View,
};

/// A certificate that cannot be issued is requested again after 1 s, 2 s, 4 s and so on, but at least every 64 s.
const MOST_RETRIES_DOUBLED: u32 = 6;

#[derive(Default)]
pub(crate) struct ProxyCertificate {
    last: Option<IssuedLeaf>,
    /// Why the next one could not be issued.
    failure: Option<RenewalFailure>,
    /// KRI of the MeshIdentity whose SPIRE agent issues it.
    spire: Option<Arc<str>>,
}

struct IssuedLeaf {
    request: LeafRequest,
    leaf: Arc<Leaf>,
}

/// The certificate before stays in use.
struct RenewalFailure {
    request: LeafRequest,
    error: String,
    attempts: u32,
    retry_at: Timestamp,
}

/// Certificate of a proxy.
pub(crate) enum LeafState {
    /// The control plane issues none to it.
    None,
    /// To be sent. It may have expired while the next one cannot be issued.
    Issued(Arc<Leaf>),
    /// None could be issued since the proxy connected, so it keeps the one that it may have.
    Missing,
}

/// Issuer of a certificate, as the step of the mesh asks for it.
enum Wanted {
    Nothing,
    FromAgent(Arc<str>),
    Leaf(LeafRequest),
}

impl ProxyCertificate {
    /// Whether it is due for renewal.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        match (&self.failure, &self.last) {
            (Some(failure), _) => failure.retry_at <= now,
            (None, Some(last)) => last.leaf.renew_at <= now,
            (None, None) => false,
        }
    }

    /// Whether the certificate of the rollout step could not be issued.
    pub(crate) fn is_step_pending(&self) -> bool {
        let (Some(failure), Some(last)) = (&self.failure, &self.last) else { return false };
        failure.request != last.request
    }

    /// Why the next one could not be issued.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.error.as_str())
    }

    /// For people, with why it or the trusted CAs are not those of the step. `None` if there is nothing to say.
    pub(crate) fn issued(&self, rollout: &Rollout, failure: Option<&str>) -> Option<Issued> {
        let last = self.last.as_ref();
        let failed = self.failure.as_ref().map(|failure| &failure.request.issuer);
        let issuer = last.map(|last| &last.request.issuer).or(failed).map(LeafIssuer::name);
        let issuer = self.spire.as_ref().or(issuer);
        (issuer.is_some() || failure.is_some()).then(|| Issued {
            issuer: issuer.cloned().unwrap_or_default(),
            leaf: last.map(|last| last.leaf.clone()),
            failure: failure.map(str::to_owned),
            trust: trusted_names(rollout),
        })
    }

    /// An error is a fault of the Dataplane.
    pub(crate) fn update(
        &mut self,
        key: &ProxyKey,
        view: &View,
        dataplane: &Proxy,
        context: &UpdateContext<'_>,
    ) -> Result<LeafState, String> {
        self.spire = None;
        match wanted(key, view, dataplane)? {
            Wanted::Nothing => *self = Self::default(),
            Wanted::FromAgent(kri) => *self = Self { spire: Some(kri), ..Self::default() },
            Wanted::Leaf(request) => {
                let leaf = context.identities.leaf(&request, context.now);
                return Ok(self.renew(request, leaf, context.now));
            }
        }
        Ok(LeafState::None)
    }

    /// The new certificate. If it could not be issued, the last one.
    fn renew(&mut self, request: LeafRequest, next: Result<Arc<Leaf>, String>, now: Timestamp) -> LeafState {
        let error = match next {
            Ok(leaf) => {
                *self = Self { last: Some(IssuedLeaf { request, leaf: leaf.clone() }), ..Self::default() };
                return LeafState::Issued(leaf);
            }
            Err(error) => error,
        };
        let attempts = self.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = SignedDuration::from_secs(1 << attempts.min(MOST_RETRIES_DOUBLED));
        let retry_at = now.checked_add(pause).unwrap_or(Timestamp::MAX);
        self.failure = Some(RenewalFailure { request, error, attempts: attempts + 1, retry_at });
        self.last.as_ref().map_or(LeafState::Missing, |last| LeafState::Issued(last.leaf.clone()))
    }
}

/// Backends and trust domains, for people.
fn trusted_names(rollout: &Rollout) -> Vec<Arc<str>> {
    let mut backends: Vec<Arc<str>> = rollout.trust.iter().map(|backend| backend.name.clone()).collect();
    backends.dedup();
    backends.into_iter().chain(rollout.trust_domains.keys().cloned()).collect()
}

fn wanted(key: &ProxyKey, view: &View, dataplane: &Proxy) -> Result<Wanted, String> {
    let Some(issuer) = kodiak_identity::issuer_of(&view.rollout.issuers, dataplane) else { return Ok(Wanted::Nothing) };
    let (issuer, uris) = match issuer {
        Issuer::Backend(signer) => {
            let uris = certificate(&key.mesh, dataplane).ok_or(
                "cannot issue a certificate: add a kuma.io/service tag or a kuma.io/workload label to the Dataplane",
            )?;
            (LeafIssuer::Backend(signer.clone()), uris)
        }
        Issuer::Identity { identity, provider: AppliedProvider::Bundled { ca, seconds }, spiffe_id } => {
            let (kri, ca, seconds) = (identity.kri.clone(), ca.clone(), *seconds);
            (LeafIssuer::Identity { kri, ca, seconds }, Arc::from([spiffe_id]))
        }
        Issuer::Identity { identity, provider: AppliedProvider::Spire { .. }, .. } => {
            return Ok(Wanted::FromAgent(identity.kri.clone()));
        }
    };
    Ok(Wanted::Leaf(LeafRequest { proxy: key.clone(), issuer, uris }))
}

#[cfg(test)]
mod tests {
    use kodiak_xds::input::Identity;
    use kodiak_xds_stream::Version;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn leaf(version: u128) -> Arc<Leaf> {
        Arc::new(Leaf {
            identity: Identity { certificate: "cert".into(), key: "key".into() },
            serial: "1".into(),
            spiffe_id: "spiffe://a/b".into(),
            version: Version(version),
            not_after: at(1000),
            renew_at: at(500),
        })
    }

    fn request(backend: &str, uri: &str) -> LeafRequest {
        let proxy = ProxyKey { mesh: "default".into(), name: "web-1".into() };
        LeafRequest { proxy, issuer: LeafIssuer::Backend(backend.into()), uris: [uri.into()].into() }
    }

    fn version(state: LeafState) -> Option<u128> {
        match state {
            LeafState::Issued(leaf) => Some(leaf.version.0),
            LeafState::None | LeafState::Missing => None,
        }
    }

    #[test]
    fn last_certificate_stays_in_use_while_the_next_cannot_be_issued() {
        let request = || request("ca", "spiffe://a/b");
        let no_ca = || Err("no CA".to_owned());
        let mut certificate = ProxyCertificate::default();
        assert!(matches!(certificate.renew(request(), no_ca(), at(0)), LeafState::Missing), "there is none to use");
        assert!(!certificate.is_due(at(0)) && certificate.is_due(at(1)), "it is requested again");
        assert_eq!(certificate.failure(), Some("no CA"));
        certificate.renew(request(), Ok(leaf(1)), at(0));
        assert!(!certificate.is_due(at(499)) && certificate.is_due(at(500)));
        for (second, next) in [(500, 501), (501, 503), (503, 507)] {
            assert!(certificate.is_due(at(second)));
            assert_eq!(version(certificate.renew(request(), no_ca(), at(second))), Some(1));
            assert!(!certificate.is_due(at(next - 1)) && certificate.is_due(at(next)), "retries are spaced");
        }
        assert!(!certificate.is_step_pending(), "the issuer is the same");
        assert_eq!(certificate.failure(), Some("no CA"));
        certificate.renew(request(), Ok(leaf(2)), at(507));
        assert_eq!(certificate.failure(), None);
        let expired = version(certificate.renew(request(), no_ca(), at(1000)));
        assert_eq!(expired, Some(2), "removing it would not help the proxy");
    }

    #[test]
    fn proxy_without_the_certificate_of_a_step_is_pending() {
        // By another issuer, or with another SPIFFE ID.
        for (issuer, uri) in [("new", "spiffe://a/b"), ("old", "spiffe://a/c")] {
            let mut certificate = ProxyCertificate::default();
            certificate.renew(request("old", "spiffe://a/b"), Ok(leaf(1)), at(0));
            certificate.renew(request(issuer, uri), Err("no CA".to_owned()), at(1));
            assert!(certificate.is_step_pending(), "{issuer} {uri}");
            certificate.renew(request(issuer, uri), Ok(leaf(2)), at(2));
            assert!(!certificate.is_step_pending(), "{issuer} {uri}");
        }
    }

    #[test]
    fn dead_issuer_does_not_hold_up_the_steps_to_another() {
        let dead = || request("dead", "spiffe://a/b");
        let mut connected = ProxyCertificate::default();
        connected.renew(dead(), Ok(leaf(1)), at(0));
        for certificate in [&mut connected, &mut ProxyCertificate::default()] {
            certificate.renew(dead(), Err("the CA expired".to_owned()), at(1000));
            assert!(!certificate.is_step_pending());
        }
    }
}
