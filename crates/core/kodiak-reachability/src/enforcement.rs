//! Whether permissions decide about callers. There are two questions, and the answer to one is never the answer to the other:
//!
//! - [`Purpose::Calls`]: what does the Envoy of a server do with a caller? Permissions act on connections with mTLS, in a
//!   permissive mesh too, and whoever issues the certificates. [`Enforcement`] has the inputs that the listener is made from.
//! - [`Purpose::Trimming`]: may a client lose a destination that denies it? Not while an inbound accepts plain text, whoever
//!   it denies: the next step or policy may let the client call it in plain text.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kodiak_identity::{CallTls, ClientAccess, ServerAccess, TlsPolicies, accepts, is_trusted};
use kodiak_model::InboundTls;
use kodiak_policies::mesh_traffic_permission::{Action, Caller, KIND, Permissions};
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use crate::{
    Answer, No, Yes,
    admission::{Source, permissions},
};

/// Use of an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Which callers with a certificate the servers admit.
    Calls,
    /// Which callers with a certificate must keep the destination.
    Trimming,
}

impl Purpose {
    /// Whether permissions decide about anybody at this step. Otherwise all destinations are open.
    pub fn is_decided_by_permissions(self, rollout: &Rollout) -> bool {
        match self {
            Self::Calls => rollout.call,
            // Every client has acknowledged that it uses mTLS, so an inbound that refuses plain text cuts off nobody.
            Self::Trimming => rollout.call && rollout.may_refuse_plaintext(),
        }
    }
}

/// TLS and permissions of one inbound, as its listener has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    pub accepts: InboundTls,
    /// Of callers with mTLS.
    pub permissions: Arc<Permissions>,
}

impl Enforcement {
    /// Answer of the server's Envoy to one call. `caller` matters for calls with mTLS alone. Without an SNI, the inbound
    /// answers yes if it does so at any SNI.
    pub fn answer(&self, mesh: &str, tls: CallTls, caller: &Caller<'_>) -> Answer {
        match (self.accepts, tls) {
            (InboundTls::Plaintext | InboundTls::Permissive, CallTls::Plaintext) => return Answer::Yes(Yes::Open),
            (InboundTls::Strict, CallTls::Plaintext) => return Answer::No(No::RefusesPlaintext),
            (InboundTls::Plaintext, CallTls::Mtls) => return Answer::No(No::RefusesMtls),
            (InboundTls::Permissive | InboundTls::Strict, CallTls::Mtls) => (),
        }
        let verdict = match caller.sni {
            Some(_) => self.permissions.verdict(mesh, caller),
            None => self.permissions.possible(mesh, caller.uris),
        };
        match (verdict.action, verdict.policy.map(str::to_owned)) {
            (Action::Deny, Some(policy)) => Answer::No(No::Denied { policy }),
            (Action::Deny, None) => Answer::No(No::NotAllowed),
            (_, policy) => Answer::Yes(Yes::Allowed { policy: policy.unwrap_or_default() }),
        }
    }
}

/// Callers with a certificate that one inbound lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InboundEffect {
    AdmitsAll,
    ByPermissions,
    AdmitsNone,
}

impl Source<'_> {
    /// `None` for an unknown Dataplane.
    pub fn enforcement(&self, proxy: &str, position: usize) -> Option<Enforcement> {
        let accepts = self.accepts(self.index.proxy(proxy)?, position);
        let matched = self.index.matched(KIND.name, proxy, self.shadow);
        let policies = matched.inbounds.get(&position).map_or(&[][..], Vec::as_slice);
        Some(Enforcement { accepts, permissions: permissions(policies) })
    }

    /// An unknown Dataplane admits everybody.
    pub(crate) fn effect(&self, proxy: &str, position: usize) -> InboundEffect {
        let Some(server) = self.index.proxy(proxy) else { return InboundEffect::AdmitsAll };
        let accepts = self.accepts(server, position);
        let access = || ServerAccess::of(self.rollout, server);
        match self.purpose {
            Purpose::Calls => match (ClientAccess::of(self.rollout, true).to(access()), accepts) {
                (Some(CallTls::Plaintext), InboundTls::Plaintext | InboundTls::Permissive) => InboundEffect::AdmitsAll,
                (Some(CallTls::Mtls), InboundTls::Permissive | InboundTls::Strict)
                    if is_trusted(self.rollout, server) =>
                {
                    InboundEffect::ByPermissions
                }
                (Some(CallTls::Plaintext), InboundTls::Strict) | (Some(CallTls::Mtls) | None, _) => {
                    InboundEffect::AdmitsNone
                }
            },
            Purpose::Trimming => match accepts {
                InboundTls::Strict => InboundEffect::ByPermissions,
                // Nobody calls it before it has a certificate, and then its permissions decide.
                InboundTls::Plaintext if access() == ServerAccess::Closed => InboundEffect::ByPermissions,
                InboundTls::Plaintext | InboundTls::Permissive => InboundEffect::AdmitsAll,
            },
        }
    }

    fn accepts(&self, server: &Proxy, position: usize) -> InboundTls {
        let policies = TlsPolicies { index: self.index, shadow: self.shadow };
        accepts(self.rollout, server, policies.inbound(&server.name, position).mode)
    }
}
