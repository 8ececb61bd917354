//! Clients whose certificate decides about no call: they have none, or nobody trusts its CA.
//!
//! Permissions act on connections with mTLS. These clients call in plain text or not at all, so the TLS of the servers decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::{CallTls, ClientAccess, ServerAccess, TlsPolicies, is_trusted, issuer_of};
use kodiak_model::{Cancellation, Cancelled, InboundTls};
use kodiak_reachability::{Answer, No, Purpose, Target, Yes, admission::Source, inbounds_behind, rollout};
use kodiak_rollout::Rollout;
use kodiak_rules::{Proxy, Shadow};
use kodiak_world::World;

/// How such a client calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unsecured {
    /// In plain text.
    Plaintext,
    /// With mTLS that all servers refuse, and servers without a certificate in plain text.
    Untrusted,
    /// Destinations outside of the mesh alone.
    CutOff,
}

#[derive(Debug, Clone, Default)]
pub(super) struct UnsecuredCalls {
    clients: BTreeMap<Arc<str>, Unsecured>,
    /// Destinations that admit them.
    admitting: BTreeMap<Unsecured, BTreeSet<Target>>,
}

impl Unsecured {
    /// `None` for a client whose certificate decides, or if permissions decide about nobody.
    fn of(rollout: &Rollout, client: &Proxy) -> Option<Self> {
        if !Purpose::Calls.is_decided_by_permissions(rollout) {
            return None;
        }
        match ClientAccess::of(rollout, issuer_of(&rollout.issuers, client).is_some()) {
            ClientAccess::Plaintext => Some(Self::Plaintext),
            ClientAccess::CutOff => Some(Self::CutOff),
            ClientAccess::Mtls => (!is_trusted(rollout, client)).then_some(Self::Untrusted),
        }
    }

    fn calls(self, server: ServerAccess) -> bool {
        let access = match self {
            Self::Plaintext => ClientAccess::Plaintext,
            Self::Untrusted => ClientAccess::Mtls,
            Self::CutOff => ClientAccess::CutOff,
        };
        access.to(server) == Some(CallTls::Plaintext)
    }
}

impl UnsecuredCalls {
    pub(super) fn of(
        world: &World,
        mesh: &str,
        shadow: Shadow,
        cancellation: &Cancellation,
    ) -> Result<Self, Cancelled> {
        let rollout = rollout(world, mesh);
        let clients =
            world.proxies(mesh).filter_map(|proxy| Some((proxy.name.clone(), Unsecured::of(&rollout, proxy)?)));
        let mut all = Self { clients: clients.collect(), admitting: BTreeMap::new() };
        let classes: BTreeSet<Unsecured> = all.clients.values().copied().collect();
        if classes.is_empty() {
            return Ok(all);
        }
        let index = world.policy_index(TlsPolicies::kinds(), mesh);
        let source = Source { index: &index, shadow, rollout: &rollout, purpose: Purpose::Calls };
        for (target, inbounds) in inbounds_behind(world, mesh) {
            cancellation.check()?;
            for class in &classes {
                let is_admitted = |(proxy, position): &(Arc<str>, usize)| {
                    let server = index.proxy(proxy);
                    let called = server.is_some_and(|server| class.calls(ServerAccess::of(&rollout, server)));
                    let accepts = source.enforcement(proxy, *position).map(|enforcement| enforcement.accepts);
                    called && accepts != Some(InboundTls::Strict)
                };
                // Nothing is known of a destination without Dataplanes here, and one outside of the mesh has no TLS of it.
                if inbounds.as_ref().is_none_or(|inbounds| inbounds.iter().any(is_admitted)) {
                    all.admitting.entry(*class).or_default().insert(target.clone());
                }
            }
        }
        Ok(all)
    }

    pub(super) fn class(&self, client: &Arc<str>) -> Option<Unsecured> {
        self.clients.get(client).copied()
    }

    pub(super) fn targets(&self, class: Unsecured) -> impl Iterator<Item = &Target> {
        self.admitting.get(&class).into_iter().flatten()
    }

    pub(super) fn answer(&self, class: Unsecured, target: &Target) -> Answer {
        let admits = self.admitting.get(&class).is_some_and(|targets| targets.contains(target));
        match class {
            _ if admits => Answer::Yes(Yes::Open),
            Unsecured::Plaintext | Unsecured::CutOff => Answer::No(No::RefusesPlaintext),
            Unsecured::Untrusted => Answer::No(No::RefusesMtls),
        }
    }
}
