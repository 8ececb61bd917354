//! How the Envoy of a client calls a server at a step of the rollout.

use kodiak_model::InboundTls;
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use crate::has_certificate;

/// How clients reach a server at a step. Decided for each server: one without a certificate changes nothing for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAccess {
    /// As clients call the mesh at this step: with mTLS, or in plain text while none uses mTLS.
    Regular,
    /// In plain text, while clients use mTLS with others: its certificate is missing, or about to come or go.
    Plaintext,
    /// Not at all: it has no certificate, and the mesh refuses plain text.
    Closed,
}

impl ServerAccess {
    pub fn of(rollout: &Rollout, server: &Proxy) -> Self {
        if !rollout.call || rollout.all_issuers().all(|issuers| has_certificate(issuers, server)) {
            Self::Regular
        } else if rollout.accept == InboundTls::Strict {
            Self::Closed
        } else {
            Self::Plaintext
        }
    }
}

/// How a client calls the servers of its mesh at a step, whatever these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAccess {
    Plaintext,
    /// With mTLS, but for servers without a certificate.
    Mtls,
    /// Not at all: it has no certificate, and the mesh refuses plain text.
    CutOff,
}

impl ClientAccess {
    /// `certified`: the client has a certificate.
    pub fn of(rollout: &Rollout, certified: bool) -> Self {
        match (rollout.call, certified, rollout.accept) {
            (true, true, _) => Self::Mtls,
            (true, false, InboundTls::Strict) => Self::CutOff,
            (true, false, InboundTls::Plaintext | InboundTls::Permissive) | (false, ..) => Self::Plaintext,
        }
    }

    /// `None`: the server is no endpoint of the client.
    pub fn to(self, server: ServerAccess) -> Option<CallTls> {
        match (self, server) {
            (Self::CutOff, _) | (_, ServerAccess::Closed) => None,
            (Self::Mtls, ServerAccess::Regular) => Some(CallTls::Mtls),
            (Self::Plaintext, _) | (Self::Mtls, ServerAccess::Plaintext) => Some(CallTls::Plaintext),
        }
    }
}

/// TLS of one call inside the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallTls {
    Plaintext,
    /// With the certificate of the client.
    Mtls,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kodiak_rollout::Issuers;
    use serde_json::{Value, json};

    use super::*;

    fn server(labels: &Value, tags: &Value) -> Proxy {
        let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": tags }] } });
        Proxy {
            mesh: "default".into(),
            name: "server".into(),
            labels: Arc::new(serde_json::from_value(labels.clone()).unwrap()),
            dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
            admission: None,
        }
    }

    #[test]
    fn backend_has_no_certificate_for_a_proxy_without_a_name() {
        let issuers = Issuers { signer: Some("ca".into()), ..Issuers::default() };
        let at = |accept| Rollout { accept, call: true, issuers: issuers.clone(), ..Rollout::default() };
        let of_service = server(&json!({}), &json!({ "kuma.io/service": "web" }));
        let of_workload = server(&json!({ "kuma.io/workload": "web" }), &json!({}));
        let nameless = server(&json!({ "app": "web" }), &json!({ "version": "1" }));
        for (proxy, permissive, strict) in [
            (&of_service, ServerAccess::Regular, ServerAccess::Regular),
            (&of_workload, ServerAccess::Regular, ServerAccess::Regular),
            (&nameless, ServerAccess::Plaintext, ServerAccess::Closed),
        ] {
            assert_eq!(has_certificate(&issuers, proxy), permissive == ServerAccess::Regular);
            assert_eq!(ServerAccess::of(&at(InboundTls::Permissive), proxy), permissive);
            assert_eq!(ServerAccess::of(&at(InboundTls::Strict), proxy), strict);
        }
    }

    #[test]
    fn certificates_of_both_sides_decide_about_a_call() {
        let at = |accept, call| Rollout { accept, call, ..Rollout::default() };
        let (permissive, strict) = (at(InboundTls::Permissive, true), at(InboundTls::Strict, true));
        let (regular, plaintext, closed) = (ServerAccess::Regular, ServerAccess::Plaintext, ServerAccess::Closed);
        for (step, certified, server, expected) in [
            (&at(InboundTls::Permissive, false), true, regular, Some(CallTls::Plaintext)),
            (&permissive, true, regular, Some(CallTls::Mtls)),
            (&permissive, true, plaintext, Some(CallTls::Plaintext)),
            (&permissive, false, regular, Some(CallTls::Plaintext)),
            (&strict, true, regular, Some(CallTls::Mtls)),
            (&strict, true, closed, None),
            (&strict, false, regular, None),
        ] {
            assert_eq!(ClientAccess::of(step, certified).to(server), expected, "{step:?} {certified} {server:?}");
        }
    }
}
