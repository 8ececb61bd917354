//! TLS between the client and the instances, and what their inbounds answer.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::{CallTls, ClientAccess, ServerAccess, acceptance, expected_ids, is_trusted, issuer_of};
use kodiak_model::kinds::{
    dataplane_insight::MtlsInsight,
    mesh_service::{Identity, IdentityType},
};
use kodiak_policies::mesh_traffic_permission::Caller;
use kodiak_reachability::{Answer, Certificate, Yes, issued};
use kodiak_rules::Proxy;
use kodiak_world::{Destination, destination::Behind};
use kodiak_xds::names;

use super::{
    Question, Step, StepName,
    serving::{Instance, SHOWN, Way},
};
use crate::calls::Backend;

/// Outcome of a call to one ready instance.
pub(super) enum Outcome {
    /// There is no connection.
    NoConnection(String),
    Answered(Answer),
}

/// Calls of the client to the ready instances.
pub(super) struct Connections {
    /// SANs that the client accepts from servers.
    expected: BTreeSet<String>,
    /// SANs of the servers.
    presented: BTreeSet<String>,
    /// Of each ready instance.
    pub(super) outcomes: Vec<Outcome>,
}

impl Connections {
    pub(super) fn of(question: &Question<'_>, ways: &[Way]) -> Self {
        let mut all = Self { expected: BTreeSet::new(), presented: BTreeSet::new(), outcomes: Vec::new() };
        for way in ways {
            let expected = question.expected(&way.backend);
            for instance in way.instances.iter().filter(|instance| instance.endpoint.ready) {
                let Some(server) = &instance.proxy else {
                    all.outcomes.push(Outcome::Answered(Answer::Yes(Yes::Open)));
                    continue;
                };
                all.presented.extend(question.presented(server));
                all.outcomes.push(match question.connect(server, instance, &expected) {
                    Ok(tls) => Outcome::Answered(question.answer(&way.backend, instance, server, tls)),
                    Err(reason) => Outcome::NoConnection(reason),
                });
            }
            all.expected.extend(expected);
        }
        all
    }
}

impl Question<'_> {
    /// TLS of the connection, or why there is none.
    fn connect(&self, server: &Proxy, instance: &Instance, expected: &BTreeSet<String>) -> Result<CallTls, String> {
        let (client, rollout) = (&self.client, &self.rollout);
        let certified = issuer_of(&rollout.issuers, client).is_some();
        let access = ClientAccess::of(rollout, certified);
        let tls = access.to(ServerAccess::of(rollout, server)).ok_or_else(|| {
            let without = if access == ClientAccess::CutOff { &client.name } else { &server.name };
            format!("{without} has no certificate, and the mesh refuses plain text")
        })?;
        if tls == CallTls::Plaintext {
            return Ok(tls);
        }
        let presented = self.presented(server);
        if presented.is_disjoint(expected) {
            let text = presented.into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!("{} presents {text}, which the client does not expect", server.name));
        }
        if let Some(issuer) = self.untrusted_issuer(instance) {
            return Err(format!("the certificate of {} is of {issuer}, which the client does not trust", server.name));
        }
        for (one, peer) in [(server, &**client), (&**client, server)] {
            if !is_trusted(rollout, one) {
                return Err(format!("{} does not trust the CA of the certificate of {}", peer.name, one.name));
            }
        }
        Ok(tls)
    }

    /// Issuer of the certificate that the server reported, if the client reported which issuers it trusts and that is none
    /// of them. A MeshIdentity is trusted by its trust domain.
    fn untrusted_issuer(&self, instance: &Instance) -> Option<String> {
        let trusted = self.trusted()?;
        let reported = instance.insight.as_ref()?.mtls.as_ref()?;
        let MtlsInsight { issued_backend, .. } = reported;
        let mut identities = self.rollout.all_issuers().flat_map(|issuers| &issuers.identities);
        let trusted_as = match identities.find(|identity| *identity.kri == **issued_backend) {
            Some(identity) => &*identity.trust_domain,
            // One of a MeshIdentity that is no more: nothing is known of its domain.
            None if issued_backend.is_empty() || issued_backend.starts_with("kri_") => return None,
            None => issued_backend.as_str(),
        };
        (!trusted.iter().any(|one| one == trusted_as)).then(|| issued_backend.clone())
    }

    /// Backends and trust domains that the client trusts, if it reported them.
    fn trusted(&self) -> Option<Vec<String>> {
        let insight = self.world.insight(&self.client.key())?;
        let trusted = insight.mtls.as_ref()?.supported_backends.clone();
        Some(trusted).filter(|trusted| !trusted.is_empty())
    }

    fn answer(&self, backend: &Backend, instance: &Instance, server: &Proxy, tls: CallTls) -> Answer {
        let sni = match backend {
            Backend::Service(tags) => names::sni(tags, self.mesh),
            Backend::Port(destination, port) => {
                names::port_sni(&destination.sni_name(), port.port, self.mesh, destination.kind())
            }
        };
        let uris = self.certificate();
        let caller = Caller { uris: &uris, sni: Some(&sni) };
        let enforcement = self.source().enforcement(&server.name, instance.position);
        enforcement.map_or(Answer::Yes(Yes::Unknown), |enforcement| enforcement.answer(self.mesh, tls, &caller))
    }

    /// URIs that the client presents.
    pub(super) fn certificate(&self) -> Certificate {
        issued(self.mesh, &self.client, &self.rollout.issuers).unwrap_or_default()
    }

    /// SANs that the client accepts from the servers of a destination.
    fn expected(&self, backend: &Backend) -> BTreeSet<String> {
        match backend {
            Backend::Service(tags) => {
                let service = names::service(tags);
                let is_behind = |proxy: &&Arc<Proxy>| {
                    proxy.dataplane.inbounds().iter().any(|inbound| inbound.service() == Some(service))
                };
                let servers = self.world.proxies(self.mesh).filter(is_behind);
                let ids = servers.flat_map(|server| expected_ids(&self.rollout, server));
                ids.chain([names::service_identity(self.mesh, service)]).collect()
            }
            Backend::Port(destination, _) => {
                let services = std::iter::once(destination).chain(self.services_of(destination));
                services.flat_map(|service| self.identities(service)).collect()
            }
        }
    }

    /// SPIFFE IDs of a MeshService: those in its spec, and of its Dataplanes.
    fn identities(&self, destination: &Destination) -> BTreeSet<String> {
        let Behind::Service(service) = &destination.behind else { return BTreeSet::new() };
        let written = |identity: &Identity| {
            Some(match identity.identity_type.as_ref()?.known()? {
                IdentityType::ServiceTag => names::service_identity(self.mesh, &identity.value),
                IdentityType::SpiffeId => identity.value.clone(),
            })
        };
        let mut all: BTreeSet<String> = service.identities.iter().filter_map(written).collect();
        for member in self.members(destination, service) {
            let accepted = acceptance(&self.rollout, &service.selector, &member);
            all.extend(accepted.service_tags.iter().map(|name| names::service_identity(self.mesh, name)));
            all.extend(accepted.spiffe_ids);
        }
        all
    }

    /// SPIFFE IDs of the certificate of a proxy.
    fn presented(&self, proxy: &Proxy) -> BTreeSet<String> {
        let uris = issued(self.mesh, proxy, &self.rollout.issuers).unwrap_or_default();
        uris.iter().filter(|uri| uri.starts_with("spiffe://")).cloned().collect()
    }
}

pub(super) fn tls(question: &Question<'_>, ways: &[Way], connections: &Connections) -> Step {
    let step = StepName::Tls;
    if let [way] = ways
        && let Some(own) = way.external()
    {
        return Step::ok(step, own);
    }
    if !question.rollout.call {
        return Step::ok(step, "plain text, because mutual TLS is off in the mesh");
    }
    let Connections { expected, presented, outcomes } = connections;
    let mut details: Vec<String> = expected.iter().map(|san| format!("expected SAN {san}")).collect();
    details.extend(question.trusted().map(|trusted| format!("the client trusts {}", trusted.join(", "))));
    details.extend(presented.iter().map(|san| format!("presented SAN {san}")));
    let problems = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::NoConnection(reason) => Some(reason.clone()),
        Outcome::Answered(_) => None,
    });
    let problems: Vec<String> = problems.collect();
    match problems.first() {
        Some(first) if problems.len() == outcomes.len() => {
            Step::problem(step, first.clone()).with(problems[1..].iter().take(SHOWN).cloned()).with(details)
        }
        _ if outcomes.is_empty() => {
            Step::unknown(step, "mutual TLS; no server to compare certificates with").with(details)
        }
        _ => Step::ok(step, "mutual TLS; the servers present SANs that the client expects")
            .with(problems.into_iter().take(SHOWN))
            .with(details),
    }
}
