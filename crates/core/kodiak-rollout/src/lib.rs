//! mTLS rollout: safe steps between two mTLS settings of a mesh.
//!
//! Proxies do not change at the same moment. So every step must work while some proxies are at the previous one:
//! servers must accept what clients already send, clients must expect the SPIFFE IDs of all certificates in use, and
//! both must trust their CAs. A step is taken when all proxies that count have acknowledged the previous one: those that are
//! connected, and those whose connection ended a moment ago (`kodiak-identity` decides who counts).
//!
//! **Invariant:** all steps that proxies may still be at are compatible with each other ([`Rollout::is_compatible`]): a
//! client at one and a server at the other accept each other, both ways. [`RolloutRecord`] stores these steps. So a step
//! that proxies reject can always be left: another step that is compatible with all of them needs no acknowledgement.
//!
//! | from | to | steps |
//! |---|---|---|
//! | off | strict | servers accept both, clients use mTLS, servers accept mTLS only |
//! | off | permissive | servers accept both, clients use mTLS, a MeshTLS may make servers strict |
//! | strict | off | servers accept both, clients use plain text, servers accept plain text only |
//! | CA A | CA B, also as new content of the same backend | all trust A and B, certificates of B, all trust B |
//! | labels A of a proxy | labels B | clients expect the SPIFFE IDs by both, a certificate by B, clients expect B |
//! | identity A | identity B | all trust the CAs of both, clients expect the SPIFFE IDs of both, certificates of B, clients expect B, all trust the CA of B |

mod backend;
mod compatible;
mod inbound;
mod issuers;
mod record;
mod relabelled;
#[cfg(test)]
mod tests;
mod waiting;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    InboundTls, Labels,
    kinds::mesh::{Mesh, MtlsBackend, MtlsMode},
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub use backend::AppliedBackend;
pub use inbound::CertificateSource;
pub use issuers::{AppliedIdentity, AppliedProvider, Issuers, Selector};
pub use record::{RolloutRecord, WayBack};
pub use waiting::{WaitReason, Waiting};

/// Trusted CA certificates (PEM, sorted) by trust domain.
pub type TrustDomains = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// Step of a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Connections that inbounds accept, unless a policy or a MeshIdentity says otherwise: [`Rollout::accepts`].
    pub accept: InboundTls,
    /// With a permissive `accept`, whether single inbounds may be strict: all clients use mTLS.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict_allowed: bool,
    /// Whether clients use mTLS.
    pub call: bool,
    /// Issuers of the certificates of proxies.
    #[serde(flatten)]
    pub issuers: Issuers,
    /// Issuers before or after: clients expect the SPIFFE IDs of their certificates too, and use mTLS only with servers
    /// that have a certificate of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_issuers: Option<Issuers>,
    /// Backends whose CAs are trusted, in the order of the mesh.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trust: Vec<AppliedBackend>,
    /// CAs that are trusted beside those of backends.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trust_domains: TrustDomains,
    /// Distinguishes the token of a step from that of an equal one before it, which proxies may have acknowledged while
    /// they were sent another one since.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeat: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// MeshIdentities, MeshTrusts and CAs of backends of a mesh that take part in its rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DesiredIdentities {
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<Arc<AppliedIdentity>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trust_domains: TrustDomains,
    /// For people: faults of MeshTrusts that are stored and not trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<Arc<str>>,
    /// Fingerprints of the CAs of `provided` backends, by name, as they were usable last.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<Arc<str>, Arc<str>>,
}

impl DesiredIdentities {
    /// Adds trusted CAs.
    pub fn trust(&mut self, domain: Arc<str>, cas: impl IntoIterator<Item = Arc<str>>) {
        let known = self.trust_domains.entry(domain).or_default();
        known.extend(cas);
        known.sort();
        known.dedup();
    }
}

/// Part of a rollout that a step belongs to, in the order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// All proxies trust the CAs of new certificates.
    Trust,
    /// Clients expect the SPIFFE IDs of new certificates.
    Expect,
    /// Proxies present new certificates.
    Issue,
    /// Clients and servers change between plain text and mTLS.
    Encrypt,
    /// SPIFFE IDs and CAs that are not in use any more are removed.
    Remove,
}

impl Rollout {
    /// Last step, for the settings of the mesh.
    pub fn target(mesh: &Mesh, desired: &DesiredIdentities) -> Self {
        let DesiredIdentities { identities, trust_domains, backends: cas, ignored: _ } = desired.clone();
        let enabled = mesh.enabled_backend();
        let applied = |backend: &MtlsBackend| {
            let name: Arc<str> = backend.name.as_str().into();
            AppliedBackend { ca: cas.get(&name).cloned(), name }
        };
        let signer = enabled.map(applied);
        let backends = mesh.mtls.iter().filter(|_| enabled.is_some()).flat_map(|mtls| &mtls.backends);
        let issuers = Issuers { signer, identities, presented: BTreeMap::new() };
        let accept = match enabled.map(MtlsBackend::mode) {
            _ if issuers.is_empty() => InboundTls::Plaintext,
            Some(MtlsMode::Permissive) => InboundTls::Permissive,
            Some(MtlsMode::Strict) | None => InboundTls::Strict,
        };
        Self {
            accept,
            strict_allowed: accept == InboundTls::Permissive,
            call: !issuers.is_empty(),
            issuers,
            other_issuers: None,
            trust: backends.map(applied).collect(),
            trust_domains,
            repeat: 0,
        }
    }

    /// Whether proxies get the same configuration at both.
    pub fn is_same_step(&self, other: &Self) -> bool {
        let Self { accept, strict_allowed, call, issuers, other_issuers, trust, trust_domains, repeat: _ } = self;
        (*accept, *strict_allowed, *call) == (other.accept, other.strict_allowed, other.call)
            && (issuers, other_issuers) == (&other.issuers, &other.other_issuers)
            && (trust, trust_domains) == (&other.trust, &other.trust_domains)
    }

    /// Identifier of the step, which proxies with its configuration acknowledge. Empty when there is nothing to
    /// acknowledge.
    pub fn token(&self) -> String {
        let Self { accept, strict_allowed, call, issuers, other_issuers, trust, trust_domains, repeat } = self;
        let Issuers { signer, identities, presented } = issuers;
        let mut words = Vec::new();
        if signer.is_some() || !issuers.is_empty() {
            let accept = match accept {
                InboundTls::Plaintext => "plain",
                InboundTls::Permissive => "both",
                InboundTls::Strict => "mtls",
            };
            words.push(format!("accept={accept} call={}", if *call { "mtls" } else { "plain" }));
            words.extend(strict_allowed.then(|| "strict=allowed".to_owned()));
        }
        words.extend(signer.as_ref().map(|signer| format!("signer={signer}")));
        if !trust.is_empty() {
            let trust: Vec<String> = trust.iter().map(ToString::to_string).collect();
            words.push(format!("trust={}", trust.join(",")));
        }
        if !identities.is_empty() {
            words.push(format!("identities={}", names(identities)));
        }
        words.extend(relabelled("presented", presented));
        if let Some(Issuers { signer, identities, presented }) = other_issuers {
            let signer = signer.as_ref().map(|signer| format!("{signer}+")).unwrap_or_default();
            words.push(format!("expected={signer}{}", names(identities)));
            words.extend(relabelled("expected-of", presented));
        }
        let domains = trust_domains.iter().map(|(domain, cas)| format!("{domain}@{:08x}", short_hash(cas)));
        let domains: Vec<String> = domains.collect();
        if !domains.is_empty() {
            words.push(format!("domains={}", domains.join(",")));
        }
        if *repeat > 0 {
            words.push(format!("repeat={repeat}"));
        }
        words.join(" ")
    }

    /// Next step towards `target`, to be taken when all proxies have acknowledged this one. `None` when it is reached.
    /// `loses`: a proxy that has a certificate now has none at the target.
    pub fn next(&self, target: &Self, loses: bool) -> Option<(Phase, Self)> {
        if self.is_same_step(target) {
            return None;
        }
        if let Some(step) = self.with_fingerprints_of(target) {
            return Some((Phase::Trust, step));
        }
        let mut step = Self { repeat: 0, ..self.clone() };
        let phase = if self.issuers.is_empty() && self.other_issuers.is_none() && !target.issuers.is_empty() {
            // Nobody uses certificates yet, so all that belongs to them can come at once.
            step.issuers.clone_from(&target.issuers);
            step.trust.clone_from(&target.trust);
            step.trust_domains.clone_from(&target.trust_domains);
            step.accept = InboundTls::Permissive;
            Phase::Issue
        } else if let Some((trust, trust_domains)) = self.with_trust_of(target) {
            (step.trust, step.trust_domains) = (trust, trust_domains);
            Phase::Trust
        } else if target.issuers.is_empty() && self.call {
            step.change_call(target);
            Phase::Encrypt
        } else if target.issuers.is_empty() {
            // Nobody uses certificates any more.
            step = target.clone();
            Phase::Remove
        } else if self.issuers != target.issuers {
            self.change_issuers(&mut step, target, loses)
        } else if self.other_issuers.is_some() {
            step.other_issuers = None;
            Phase::Remove
        } else if self.call != target.call {
            step.change_call(target);
            Phase::Encrypt
        } else {
            let accepts = |step: &Self| (step.accept, step.strict_allowed);
            if accepts(self) == accepts(target) {
                step = target.clone();
                Phase::Remove
            } else {
                (step.accept, step.strict_allowed) = accepts(target);
                Phase::Encrypt
            }
        };
        Some((phase, step))
    }

    fn change_issuers(&self, step: &mut Self, target: &Self, loses: bool) -> Phase {
        let is_prepared =
            self.other_issuers.as_ref() == Some(&target.issuers) || self.issuers.is_same_to_clients(&target.issuers);
        if is_prepared {
            let before = std::mem::replace(&mut step.issuers, target.issuers.clone());
            step.other_issuers = (!before.is_same_to_clients(&target.issuers)).then_some(before);
            Phase::Issue
        } else if loses && self.may_refuse_plaintext() {
            // Clients are about to use plain text with the servers that lose their certificates.
            step.accept_both();
            Phase::Encrypt
        } else {
            step.other_issuers = Some(target.issuers.clone());
            Phase::Expect
        }
    }

    /// Both ways of calling must be accepted before and while clients change.
    fn change_call(&mut self, target: &Self) {
        match self.accept {
            InboundTls::Permissive if !self.strict_allowed => self.call = target.call,
            InboundTls::Plaintext | InboundTls::Permissive | InboundTls::Strict => self.accept_both(),
        }
    }

    /// Every inbound with a certificate accepts both, whatever policies say.
    fn accept_both(&mut self) {
        self.accept = InboundTls::Permissive;
        self.strict_allowed = false;
    }

    /// Whether a proxy at this step trusts every CA of `target`.
    pub fn trusts(&self, target: &Self) -> bool {
        self.with_trust_of(target).is_none()
    }

    /// Whether a client at this step expects the SPIFFE IDs of certificates of the target.
    pub fn expects(&self, target: &Self) -> bool {
        self.all_issuers().any(|issuers| issuers.is_same_to_clients(&target.issuers))
    }

    /// A step of an earlier version names backends without their CAs, which are those that the target has. `None` if nothing
    /// is missing.
    fn with_fingerprints_of(&self, target: &Self) -> Option<Self> {
        let known = |missing: &AppliedBackend| {
            let mut all = target.trust.iter().chain(&target.issuers.signer);
            all.find(|found| missing.ca.is_none() && found.name == missing.name && found.ca.is_some()).cloned()
        };
        let mut step = self.clone();
        let others = step.other_issuers.iter_mut().filter_map(|issuers| issuers.signer.as_mut());
        let signers = step.issuers.signer.iter_mut().chain(others);
        for backend in signers.chain(&mut step.trust) {
            if let Some(found) = known(backend) {
                *backend = found;
            }
        }
        step.trust.dedup();
        (step != *self).then_some(step)
    }

    /// Trust in the CAs of this step and of the target. `None` if nothing is missing.
    fn with_trust_of(&self, target: &Self) -> Option<(Vec<AppliedBackend>, TrustDomains)> {
        let (mut trust, mut domains) = (self.trust.clone(), self.trust_domains.clone());
        trust.extend(target.trust.iter().filter(|wanted| !self.trust.contains(wanted)).cloned());
        for (domain, cas) in &target.trust_domains {
            let known = domains.entry(domain.clone()).or_default();
            known.extend(cas.iter().cloned());
            known.sort();
            known.dedup();
        }
        (trust != self.trust || domains != self.trust_domains).then_some((trust, domains))
    }

    /// Issuers whose certificates proxies have or are about to have: of this step, and those before or after.
    pub fn all_issuers(&self) -> impl Iterator<Item = &Issuers> {
        [&self.issuers].into_iter().chain(&self.other_issuers)
    }

    /// Whether `next` makes clients use mTLS while servers keep accepting plain text: then offline proxies count too,
    /// because a server without a sidecar may run in their place.
    pub fn needs_everybody(&self, next: &Self, target: &Self) -> bool {
        !self.call && next.call && target.accept == InboundTls::Permissive
    }

    /// Whether `next` makes servers refuse plain text, and a proxy without a MeshIdentity has no other certificate: then
    /// every Dataplane needs one.
    pub fn needs_identities(&self, next: &Self) -> bool {
        self.accept != InboundTls::Strict && next.accept == InboundTls::Strict && next.issuers.signer.is_none()
    }
}

/// Names with a hash of the content: `web@0f3a1b2c`.
fn names(identities: &[Arc<AppliedIdentity>]) -> String {
    let named = identities.iter().map(|identity| format!("{}@{:08x}", identity.name, identity.short_hash()));
    named.collect::<Vec<_>>().join(",")
}

/// Number of proxies with labels of their own, with a hash: `presented=2@0f3a1b2c`.
fn relabelled(word: &str, presented: &BTreeMap<Arc<str>, Arc<Labels>>) -> Option<String> {
    (!presented.is_empty()).then(|| format!("{word}={}@{:08x}", presented.len(), short_hash(presented)))
}

impl AppliedIdentity {
    /// Distinguishes versions of one MeshIdentity in tokens and logs.
    pub fn short_hash(&self) -> u32 {
        short_hash(self)
    }
}

/// Equal on every machine and in every build: hash of the JSON.
fn short_hash<T: Serialize>(value: &T) -> u32 {
    let json = serde_json::to_vec(value).expect("values have text keys");
    u32::try_from(xxh3_64(&json) >> 32).expect("32 bits are left")
}
