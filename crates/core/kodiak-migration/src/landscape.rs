//! Services by their tags, and the MeshServices that may replace them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Choice, Kri, LabelSelector, LegacyName, TargetKind, TargetRef, Word as _,
    dns::dns_1035_label,
    kinds::{dataplane::InboundState, mesh::MeshServicesMode},
    labels, tags,
};
use kodiak_rules::{Meta, Proxy};

use kodiak_inspection::inspect::MeshView;
use kodiak_services::{
    membership::Membership,
    reachable::{self, Outbounds, Wanted},
};
use kodiak_world::destination::{Behind, Destination, DestinationPort};

pub struct Landscape<'a> {
    pub(super) view: &'a MeshView,
    /// By the value of `kuma.io/service`.
    pub(super) tagged: BTreeMap<&'a str, Tagged<'a>>,
    /// MeshServices by the name that people know.
    objects: BTreeMap<&'a str, Vec<&'a Destination>>,
    /// Selector of each MeshMultiZoneService.
    pub(super) multi_zone: Vec<&'a LabelSelector>,
    membership: Membership,
}

/// Who has a value of `kuma.io/service`.
#[derive(Debug, Default)]
pub(super) struct Tagged<'a> {
    pub(super) proxies: BTreeMap<&'a str, &'a Proxy>,
    /// Where it is served by somebody who is ready. The empty zone is that of whoever names none.
    pub(super) zones: BTreeSet<&'a str>,
    pub(super) ports: BTreeSet<u32>,
}

impl<'a> Landscape<'a> {
    pub fn of(view: &'a MeshView) -> Self {
        let mut tagged: BTreeMap<&str, Tagged<'_>> = BTreeMap::new();
        let mut membership = Membership::default();
        for (name, proxy) in &view.proxies {
            membership.set_proxy(name, Some(proxy));
            for inbound in proxy.dataplane.inbounds().iter().filter(|one| one.state() != InboundState::Ignored) {
                let Some(service) = inbound.service() else { continue };
                let of_service = tagged.entry(service).or_default();
                of_service.proxies.insert(&**name, &**proxy);
                of_service.ports.insert(inbound.port);
                if inbound.is_ready() {
                    let zone = inbound.tags.get(tags::ZONE).map(String::as_str);
                    of_service.zones.insert(zone.or(proxy.meta().zone()).unwrap_or_default());
                }
            }
        }
        let mut objects: BTreeMap<&str, Vec<&Destination>> = BTreeMap::new();
        let mut multi_zone = Vec::new();
        for destination in &view.destinations {
            match &destination.behind {
                Behind::Service(service) => {
                    objects.entry(&destination.kri.name).or_default().push(destination);
                    let selector = Some(&service.selector).filter(|_| destination.is_local());
                    membership.set_service(&destination.name, selector);
                }
                Behind::MultiZone(spec) => multi_zone.push(&spec.selector.mesh_service),
                Behind::External(_) => (),
            }
        }
        Self { view, tagged, objects, multi_zone, membership }
    }

    /// Destinations that a proxy has outbounds for, or would have in another mode.
    pub(super) fn outbounds(&self, mode: MeshServicesMode, proxy: &Proxy, redirected: bool) -> Outbounds<'a> {
        reachable::outbounds(mode, proxy, redirected, self.tagged.keys().copied(), &self.view.destinations)
    }

    /// Whether a consumer can call the port of the object instead of the service: a MeshService for it, in any zone, or a
    /// MeshMultiZoneService that selects such a MeshService.
    pub(super) fn stands_for(
        &self,
        service: &str,
        object: &Destination,
        port: &DestinationPort,
        proxy: &Proxy,
    ) -> bool {
        let wanted_port = LegacyName::parse(service).and_then(|name| name.port);
        if wanted_port.is_some_and(|wanted| wanted != port.port) {
            return false;
        }
        if Wanted::stand_ins(service, proxy).iter().any(|wanted| wanted.takes(object, port)) {
            return true;
        }
        let objects = self.objects(service);
        match &object.behind {
            Behind::Service(_) => objects.iter().any(|one| one.kri == object.kri),
            Behind::MultiZone(spec) => {
                let selector = &spec.selector.mesh_service;
                selector.specificity() > 0 && objects.iter().any(|one| selector.matches(&one.labels))
            }
            Behind::External(_) => false,
        }
    }

    /// The MeshServices that a value of `kuma.io/service` may have become, of whichever zones: by name, else those that
    /// select this tag and nothing else.
    pub(super) fn objects(&self, service: &str) -> Vec<&'a Destination> {
        let (name, namespace) = match LegacyName::parse(service) {
            Some(LegacyName { name, namespace, .. }) => (name, Some(namespace)),
            None => (service, None),
        };
        let known = self.objects.get(name).into_iter().flatten();
        let named: Vec<&Destination> = known
            .filter(|object| namespace.is_none_or(|namespace| object.kri.namespace == namespace))
            .copied()
            .collect();
        if !named.is_empty() {
            return named;
        }
        let all = self.objects.values().flatten().copied();
        all.filter(|object| selects_tag(object, service)).collect()
    }

    /// Replacements of a value of `kuma.io/service` in a policy, one for each port; or the reason why it is ambiguous.
    pub(super) fn find(&self, service: &str, policy: Meta<'_>) -> Result<Vec<TargetRef>, String> {
        let name = LegacyName::parse(service);
        let objects = self.objects(service);
        if objects.is_empty() {
            return Err(self.absent(service, name));
        }
        let served = self.tagged.contains_key(service);
        if name.is_none() && !served {
            return Err(format!(
                "nobody has kuma.io/service: {service} now, so nobody can tell whether the tag or the MeshService is meant; \
                 write sectionName if it is the MeshService"
            ));
        }
        let namespaces: BTreeSet<&str> = objects.iter().map(|object| object.kri.namespace.as_str()).collect();
        if namespaces.len() > 1 {
            let shown: Vec<String> = namespaces.into_iter().map(in_namespace).collect();
            return Err(format!(
                "MeshServices of several namespaces have this name ({}); write which one is meant with the label {}",
                shown.join(", "),
                labels::NAMESPACE
            ));
        }
        for object in objects.iter().filter(|object| served && object.is_local()) {
            self.same_proxies(service, name, object)?;
        }
        let sections = sections(name, &objects)?;
        let by = reference(&objects, policy)?;
        Ok(sections.into_iter().map(|section| TargetRef { section_name: Some(section), ..by.clone() }).collect())
    }

    fn absent(&self, service: &str, name: Option<LegacyName<'_>>) -> String {
        match name {
            Some(LegacyName { name, namespace, .. }) => {
                format!("there is no MeshService {name:?} in the namespace {namespace:?}")
            }
            None if !self.tagged.contains_key(service) => {
                format!("there is no MeshService {service:?}, and nobody has kuma.io/service: {service}")
            }
            None if !dns_1035_label(service).is_empty() => format!(
                "{service:?} cannot be the name of a MeshService, so none is made for it; \
                 write one that selects kuma.io/service: {service}"
            ),
            None if self.view.mode == MeshServicesMode::Disabled => {
                format!("there is no MeshService {service:?}: none is made while meshServices.mode is Disabled")
            }
            None => format!("there is no MeshService {service:?} yet"),
        }
    }

    /// A MeshService of a user may be another service than the tag of the same name.
    fn same_proxies(&self, service: &str, name: Option<LegacyName<'_>>, object: &Destination) -> Result<(), String> {
        let zone = Some(object.kri.zone.as_str()).filter(|zone| !zone.is_empty());
        let here = |proxy: &Proxy| zone.is_none() || proxy.meta().zone().is_none() || proxy.meta().zone() == zone;
        let tagged = self.tagged.get(service).into_iter().flat_map(|of| &of.proxies);
        let tagged: BTreeSet<&str> = tagged.filter(|(_, proxy)| here(proxy)).map(|(name, _)| *name).collect();
        let members = self.membership.members(&object.name).filter(|proxy| serves(proxy, name, object));
        let members: BTreeSet<&str> = members.map(|proxy| &*proxy.name).collect();
        if tagged == members {
            return Ok(());
        }
        let only = |these: &BTreeSet<&str>, those: &BTreeSet<&str>| names(these.difference(those).copied());
        Err(format!(
            "MeshService {:?} selects other proxies than kuma.io/service: {service} does (only the tag: {}; only the MeshService: {})",
            object.name,
            only(&tagged, &members),
            only(&members, &tagged),
        ))
    }
}

/// Whether it is a MeshService of a user for exactly this value of `kuma.io/service`.
fn selects_tag(object: &Destination, service: &str) -> bool {
    let Behind::Service(spec) = &object.behind else { return false };
    let tags = spec.selector.dataplane_tags.iter().flatten();
    tags.map(|(key, value)| (key.as_str(), value.as_str())).eq([(tags::SERVICE, service)])
}

/// Whether it has an inbound for the port that is meant.
fn serves(proxy: &Arc<Proxy>, name: Option<LegacyName<'_>>, object: &Destination) -> bool {
    let (Some(LegacyName { port: Some(number), .. }), Behind::Service(service)) = (name, &object.behind) else {
        return true;
    };
    let Some(port) = service.ports.iter().find(|port| port.port == number) else { return true };
    port.target_port.is_none() || proxy.dataplane.inbounds().iter().any(|inbound| port.is_served_by(inbound))
}

/// The names of the ports that are meant, each once. Zones may call them differently.
fn sections(name: Option<LegacyName<'_>>, objects: &[&Destination]) -> Result<Vec<String>, String> {
    let wanted = name.and_then(|name| name.port);
    let ports = objects.iter().flat_map(|object| &object.ports);
    let mut sections: Vec<String> = Vec::new();
    for port in ports.filter(|port| wanted.is_none_or(|wanted| wanted == port.port)) {
        if !sections.contains(&port.section) {
            sections.push(port.section.clone());
        }
    }
    match (sections.is_empty(), wanted) {
        (false, _) => Ok(sections),
        (true, Some(port)) => Err(format!("the MeshService {:?} has no port {port}", objects[0].kri.name)),
        (true, None) => Err(format!("the MeshService {:?} has no ports", objects[0].kri.name)),
    }
}

/// By labels, so that it means the service in all zones as the tag did. Labels that nobody set mean nothing: then by
/// its name, if there is but one and it is where the policy is.
fn reference(objects: &[&Destination], policy: Meta<'_>) -> Result<TargetRef, String> {
    let kind = Some(Choice::parse(TargetKind::MeshService.text()));
    let Kri { zone, namespace, name, .. } = &objects[0].kri;
    if objects.iter().all(|object| object.labels.contains_key(labels::DISPLAY_NAME)) {
        let own = [(labels::DISPLAY_NAME, name), (labels::NAMESPACE, namespace)].into_iter();
        let own = own.filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.to_owned(), value.clone()));
        return Ok(TargetRef { kind, labels: Some(own.collect()), ..TargetRef::default() });
    }
    let there = |own: Option<&str>| own.unwrap_or_default().to_owned();
    if objects.len() == 1 && *zone == there(policy.zone()) && *namespace == there(policy.namespace()) {
        return Ok(TargetRef { kind, name: Some(name.clone()), ..TargetRef::default() });
    }
    let bare = objects.iter().filter(|object| !object.labels.contains_key(labels::DISPLAY_NAME));
    Err(format!(
        "MeshService {} was written without the label {}: {name}, by which all zones could be meant; add it",
        names(bare.map(|object| &*object.name)),
        labels::DISPLAY_NAME
    ))
}

fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { "none".to_owned() } else { namespace.to_owned() }
}

/// Some of them, and how many more.
fn names<'n>(all: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 3;
    let all: Vec<&str> = all.collect();
    match all.len() {
        0 => "none".to_owned(),
        count if count <= SHOWN => all.join(", "),
        count => format!("{} and {} more", all[..SHOWN].join(", "), count - SHOWN),
    }
}
