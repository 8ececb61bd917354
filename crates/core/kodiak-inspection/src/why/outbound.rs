//! Address of the destination, and the outbound of the client for it.

use std::sync::Arc;

use kodiak_model::{
    kinds::{dataplane::TransparentProxying, mesh::MeshServicesMode},
    tags,
};
use kodiak_reachability::{LABEL, Mode, ModeSource};
use kodiak_services::{
    reachable::{self, Reach, Wanted, has_legacy_destinations},
    vips,
};
use kodiak_world::{Destination, destination::DestinationPort};

use super::{Called, Question, Step, StepName, resolve};

/// Virtual address of the destination.
pub(super) fn address(question: &Question<'_>) -> Step {
    let step = StepName::Address;
    if question.is_redirected() == Some(false) {
        return Step::ok(step, "the workload calls the address of the outbound, because traffic is not redirected");
    }
    let (address, hostnames): (Option<String>, Vec<String>) = match &question.called {
        Called::Service(service) => {
            let vip = resolve::vips(question.world, question.mesh).get(service);
            (vip.map(|vip| format!("{vip}:{}", vips::PORT)), vips::hostnames(service).collect())
        }
        Called::Port(destination, port) => {
            let vip = destination.vips.first().map(|vip| format!("{vip}:{}", port.port));
            (vip, destination.hostnames.iter().map(ToString::to_string).collect())
        }
    };
    let names = hostnames.iter().map(|hostname| format!("hostname {hostname}"));
    match address {
        Some(address) => Step::ok(step, format!("virtual address {address}")).with(names),
        None if question.context.offline => {
            Step::unknown(step, "files have no virtual addresses; the control plane allocates them").with(names)
        }
        None => Step::problem(
            step,
            format!("{} has no virtual address, so its hostnames do not resolve", question.called.short()),
        ),
    }
}

/// Whether the client has an outbound, and what selects or hides it.
pub(super) fn outbound(question: &Question<'_>) -> Step {
    let step = StepName::Outbound;
    let found = match question.is_redirected() {
        Some(false) => return listed_outbound(question),
        Some(true) | None => question.selected(),
    };
    let by = match found {
        Ok(by) => by,
        Err(reason) => return Step::problem(step, reason),
    };
    let present = match question.is_redirected() {
        None => Step::unknown(step, format!("present if the proxy redirects traffic: {by}")),
        Some(_) => Step::ok(step, format!("present: {by}")),
    };
    let (client, called) = (&question.client, question.called.backend());
    if question.trimming.exempt(client).is_some() || !question.trimming.client(client).trims_port(&called) {
        return present;
    }
    let (mode, source) = question.trimming.mode(client);
    let (origin, client) = (origin(source, question), &question.client.name);
    match mode {
        Mode::Off => present,
        Mode::Shadow => present.with([format!("reachability shadow ({origin}): with on, it would be trimmed")]),
        Mode::On => Step::problem(
            step,
            format!("the outbound is trimmed, because {client} may not call it (reachability on, {origin})"),
        ),
    }
}

/// Whether the engine removes the outbound of the client.
pub(super) fn is_trimmed(question: &Question<'_>) -> bool {
    let (trimming, client) = (&question.trimming, &question.client);
    let is_selected = question.is_redirected() != Some(false) && question.selected().is_ok();
    is_selected
        && trimming.mode(client).0 == Mode::On
        && trimming.exempt(client).is_none()
        && trimming.client(client).trims_port(&question.called.backend())
}

fn origin(source: ModeSource, question: &Question<'_>) -> String {
    match source {
        ModeSource::Dataplane => format!("label {LABEL} of Dataplane {}", question.client.name),
        ModeSource::Mesh => format!("label {LABEL} of Mesh {}", question.mesh),
        ModeSource::Settings => "setting of the control plane".to_owned(),
    }
}

/// Outbounds that the Dataplane lists: all that a proxy without redirection has.
fn listed_outbound(question: &Question<'_>) -> Step {
    let (step, client, called) = (StepName::Outbound, &question.client, question.called.short());
    let destinations: Vec<Arc<Destination>> = question.world.destinations(question.mesh).cloned().collect();
    let outbounds = reachable::outbounds(question.mode, client, false, [], &destinations);
    let is_present = match &question.called {
        Called::Service(service) => {
            outbounds.services.iter().any(|tags| tags.get(tags::SERVICE).is_some_and(|own| **own == **service))
        }
        Called::Port(destination, port) => {
            outbounds.ports.iter().any(|(own, at)| own.kri == destination.kri && at.section == port.section)
        }
    };
    let written = client.dataplane.outbounds().iter().enumerate().find(|(_, outbound)| match &question.called {
        Called::Service(service) => outbound.tags.get(tags::SERVICE).is_some_and(|own| **own == **service),
        Called::Port(destination, port) => outbound
            .backend_ref
            .as_ref()
            .is_some_and(|reference| Wanted::by_outbound(reference, client).takes(destination, port)),
    });
    match written {
        Some((n, outbound)) if is_present => {
            let at = format!("{}:{}", outbound.address(), outbound.port);
            Step::ok(step, format!("present: networking.outbound[{n}] of the Dataplane, at {at}"))
        }
        Some((n, _)) => Step::problem(
            step,
            format!(
                "networking.outbound[{n}] of the Dataplane has no effect; `kodiak inspect dataplane {} --type references` \
                 shows why",
                client.name
            ),
        ),
        None => Step::problem(
            step,
            format!(
                "Dataplane {} has no outbound for {called}, and the proxy does not redirect traffic: add one to \
                 networking.outbound",
                client.name
            ),
        ),
    }
}

impl Question<'_> {
    /// `None` before the proxy connects, if the Dataplane does not say it.
    pub(super) fn is_redirected(&self) -> Option<bool> {
        let known = self.world.redirects_outbound(&self.client);
        let lists = self.client.dataplane.usable_outbounds().next().is_some();
        known.or(lists.then_some(false))
    }

    fn transparent(&self) -> Option<&TransparentProxying> {
        self.client.dataplane.networking.as_ref()?.transparent_proxying.as_ref()
    }

    /// The setting or list that selects the destination for a transparent proxy. The one that hides it is the error.
    fn selected(&self) -> Result<String, String> {
        match &self.called {
            Called::Service(service) => self.selected_service(service),
            Called::Port(destination, port) => self.selected_port(destination, port),
        }
    }

    fn selected_service(&self, service: &str) -> Result<String, String> {
        if !has_legacy_destinations(self.mode) {
            let reason = format!(
                "values of kuma.io/service are no destinations in meshServices.mode Exclusive: call the MeshService of {service}"
            );
            return Err(reason);
        }
        let listed = self.transparent().map_or(&[][..], |lists| &lists.reachable_services);
        match listed.iter().position(|one| one == service) {
            Some(n) => Ok(format!("reachableServices[{n}] of the Dataplane")),
            None if listed.is_empty() => Ok("the Dataplane has no reachable list".to_owned()),
            None => Err(format!("reachableServices of Dataplane {} does not list it", self.client.name)),
        }
    }

    fn selected_port(&self, destination: &Destination, port: &DestinationPort) -> Result<String, String> {
        let zone = self.client.meta().zone();
        if !reachable::is_served_in(destination, zone) {
            let own = &destination.kri.zone;
            return Err(format!("it is served in zone {own} only, and the client is in another zone"));
        }
        let name = &self.client.name;
        let backends = self.transparent().and_then(|lists| lists.reachable_backends.as_ref());
        let services = self.transparent().map_or(&[][..], |lists| &lists.reachable_services);
        match Reach::of(self.mode, &self.client) {
            Reach::Everything => Ok("the Dataplane has no reachable list".to_owned()),
            Reach::Nothing if self.mode == MeshServicesMode::ReachableBackends => {
                let mode = "meshServices.mode is ReachableBackends";
                Err(format!("{mode}, and Dataplane {name} has no reachableBackends"))
            }
            Reach::Nothing => {
                let reason =
                    format!("reachableServices of Dataplane {name} hides resources in meshServices.mode Disabled");
                Err(reason)
            }
            Reach::Listed(_) => {
                let by_backend = backends
                    .into_iter()
                    .flat_map(|list| &list.refs)
                    .position(|reference| Wanted::by_backend(reference, &self.client).takes(destination, port));
                if let Some(n) = by_backend {
                    return Ok(format!("reachableBackends.refs[{n}] of the Dataplane"));
                }
                let by_service = services.iter().filter(|_| backends.is_none()).position(|service| {
                    Wanted::stand_ins(service, &self.client).iter().any(|wanted| wanted.takes(destination, port))
                });
                if let Some(n) = by_service {
                    return Ok(format!("reachableServices[{n}] of the Dataplane"));
                }
                let list = if backends.is_some() { "reachableBackends" } else { "reachableServices" };
                Err(format!("{list} of Dataplane {name} does not list it"))
            }
        }
    }
}
