//! Destinations that the traffic of a client gets to: those of its MeshHTTPRoutes and MeshTCPRoutes, or the one that it calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Kri, PortSection, Protocol,
    policy::{Conf, ConfShape},
    tags,
};
use kodiak_policies::target::{self, BackendKey, PortRef};
use kodiak_reachability::Target;
use kodiak_rules::{
    Policy, PolicyIndex, Proxy, Resources, Shadow,
    outbound::{Asked, NameResolution},
    subset,
};
use kodiak_services::{
    reachable::{self, has_legacy_destinations, is_served_in},
    tag_services::common_protocol,
};
use kodiak_world::{
    Destination, World,
    destination::{DestinationPort, KINDS},
};
use kodiak_xds::{input::Carried, names};

/// A `kuma.io/service` or a subset of it, or a port of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Backend {
    Service(BTreeMap<String, String>),
    Port(Arc<Destination>, DestinationPort),
}

/// Routes of a mesh.
pub struct Routes<'a> {
    world: &'a World,
    mesh: &'a str,
    hooks: Vec<&'static dyn kodiak_policies::Policy>,
    index: PolicyIndex,
    resources: Resources,
    resolution: NameResolution,
}

/// Routes that select one client.
pub struct ClientRoutes<'a> {
    routes: &'a Routes<'a>,
    zone: Option<&'a str>,
    own: Vec<KindRoutes>,
}

struct KindRoutes {
    hook: &'static dyn kodiak_policies::Policy,
    shape: ConfShape,
    policies: Vec<Arc<Policy>>,
    asked: Asked,
}

/// Merged routes of a client that decide about one destination.
struct DecidedRoutes {
    hook: &'static dyn kodiak_policies::Policy,
    conf: Conf,
    own: Arc<str>,
    backends: target::Backends,
    by_cluster: BTreeMap<Arc<str>, Backend>,
}

impl DecidedRoutes {
    fn destinations(&self) -> Vec<Backend> {
        self.named(&self.hook.clusters(&self.conf, &self.own, &self.backends))
    }

    fn mirrors(&self) -> Vec<Backend> {
        self.named(&self.hook.mirrors(&self.conf, &self.backends))
    }

    fn named(&self, clusters: &BTreeSet<Arc<str>>) -> Vec<Backend> {
        clusters.iter().filter_map(|cluster| self.by_cluster.get(cluster)).cloned().collect()
    }
}

impl<'a> Routes<'a> {
    pub fn of(world: &'a World, mesh: &'a str) -> Self {
        let hooks: Vec<_> = kodiak_policies::in_force().iter().copied().filter(|hook| shape(*hook).is_some()).collect();
        let kinds = || hooks.iter().map(|hook| hook.kind());
        Self {
            world,
            mesh,
            index: world.policy_index(kinds(), mesh),
            resources: world.policy_targets(kinds(), mesh),
            resolution: reachable::name_resolution(world.mesh_services_mode(mesh)),
            hooks,
        }
    }

    pub fn client(&'a self, client: &'a Proxy) -> ClientRoutes<'a> {
        let routes = self.hooks.iter().filter_map(|hook| {
            let matched = self.index.matched_by(hook.kind().name, client, Shadow::Ignored);
            let policies: Vec<Arc<Policy>> =
                matched.proxy.iter().filter(|policy| !policy.body.to.is_empty()).cloned().collect();
            let asked = Asked::new(&policies, self.resolution);
            (!policies.is_empty()).then_some(KindRoutes { hook: *hook, shape: shape(*hook)?, policies, asked })
        });
        ClientRoutes { routes: self, zone: client.meta().zone(), own: routes.collect() }
    }

    /// `None` for a service without instances.
    fn protocol(&self, backend: &Backend) -> Option<Protocol> {
        let tags = match backend {
            Backend::Port(_, port) => return Some(port.protocol),
            Backend::Service(tags) => tags,
        };
        let proxies = self.world.proxies(self.mesh).flat_map(|proxy| proxy.dataplane.inbounds());
        let of_service =
            proxies.filter(|inbound| inbound.is_served() && inbound.service() == Some(names::service(tags)));
        let all: Vec<_> = of_service.collect();
        let ready = all.iter().filter(|inbound| inbound.is_ready()).map(|inbound| inbound.protocol());
        common_protocol(ready).or_else(|| common_protocol(all.iter().map(|inbound| inbound.protocol())))
    }
}

fn shape(hook: &dyn kodiak_policies::Policy) -> Option<ConfShape> {
    hook.kind().policy.map(|facts| facts.conf).filter(|shape| *shape != ConfShape::Default)
}

impl ClientRoutes<'_> {
    /// Whether a route selects the destination.
    pub fn select(&self, called: &Backend) -> bool {
        self.own.iter().any(|routes| self.conf(routes, called).is_some())
    }

    /// Where requests or connections to a destination get to. `None` if no route decides.
    pub fn backends(&self, called: &Backend) -> Option<Vec<Backend>> {
        self.decided(called).map(|decided| decided.destinations())
    }

    /// Whether a destination that the traffic gets to, a mirror too, is one of these, or the proxy of the client answers.
    pub fn may_be_answered(&self, called: &Backend, is_permitted: impl Fn(&Backend) -> bool) -> bool {
        let Some(decided) = self.decided(called) else { return is_permitted(called) };
        let reached = decided.destinations().into_iter().chain(decided.mirrors());
        decided.hook.redirects(&decided.conf) || reached.into_iter().any(|backend| is_permitted(&backend))
    }

    fn decided(&self, called: &Backend) -> Option<DecidedRoutes> {
        let confs: Vec<(&KindRoutes, Conf)> =
            self.own.iter().filter_map(|routes| Some((routes, self.conf(routes, called)?))).collect();
        if confs.is_empty() {
            return None;
        }
        let has = |shape| confs.iter().any(|(routes, _)| routes.shape == shape);
        let carried =
            Carried::with_routes(self.routes.protocol(called), has(ConfShape::Routes), has(ConfShape::FirstRule));
        let wanted = match carried {
            Carried::Http => ConfShape::Routes,
            Carried::Tcp => ConfShape::FirstRule,
        };
        let (routes, conf) = confs.into_iter().find(|(routes, _)| routes.shape == wanted)?;
        let own = called.cluster();
        let mut by_cluster = BTreeMap::from([(own.clone(), called.clone())]);
        let mut known = BTreeMap::new();
        for key in routes.hook.backends(&conf).iter().filter_map(BackendKey::of) {
            let Some(backend) = self.resolve(&key) else { continue };
            let cluster = backend.cluster();
            let protocol = self.routes.protocol(&backend).unwrap_or(Protocol::Tcp);
            known.insert(key, target::Backend { cluster: cluster.clone(), protocol, external: false });
            by_cluster.insert(cluster, backend);
        }
        Some(DecidedRoutes { hook: routes.hook, conf, own, backends: target::Backends(known), by_cluster })
    }

    fn conf(&self, routes: &KindRoutes, called: &Backend) -> Option<Conf> {
        match called {
            Backend::Service(tags) => {
                let tags = [(tags::SERVICE, names::service(tags))];
                let rules = subset::for_destination(&routes.policies, &self.routes.resources, &tags).ok()?;
                rules.into_iter().next().map(|rule| rule.conf)
            }
            Backend::Port(destination, port) => {
                let rule = routes.asked.about(&resource(destination)?, &port.section)?;
                rule.confs.first().cloned()
            }
        }
    }

    /// A `kuma.io/service` counts as existing also without instances, so that requests fail instead of taking another route.
    fn resolve(&self, key: &BackendKey) -> Option<Backend> {
        let Routes { world, mesh, .. } = self.routes;
        match key {
            BackendKey::Service(tags) => {
                let exists = has_legacy_destinations(world.mesh_services_mode(mesh));
                exists.then(|| Backend::Service(tags.clone()))
            }
            BackendKey::Port(written) => {
                let found = world.destinations(mesh).filter(|one| one.kind() == written.kind);
                let found: Vec<&Arc<Destination>> = found.collect();
                let meant = if written.labels.is_empty() {
                    let zones = [self.zone.unwrap_or_default(), ""];
                    let named = zones.map(|zone| found.iter().find(|one| is_named(&one.kri, written, zone)));
                    named.into_iter().flatten().find_map(|one| port_of(one, written))
                } else {
                    let labelled = found
                        .iter()
                        .filter(|one| written.labels.iter().all(|(key, value)| one.labels.get(key) == Some(value)));
                    let with_port = labelled.filter_map(|one| port_of(one, written));
                    with_port.min_by_key(|(one, _)| (one.created, one.name.clone()))
                };
                let (destination, port) = meant.filter(|(one, _)| is_served_in(one, self.zone))?;
                Some(Backend::Port(destination, port))
            }
        }
    }
}

impl Backend {
    pub fn target(&self) -> Target {
        match self {
            Self::Service(tags) => Target::Service(names::service(tags).into()),
            Self::Port(destination, _) => Target::Object(Arc::new(destination.kri.clone())),
        }
    }

    /// A name that no other backend has.
    fn cluster(&self) -> Arc<str> {
        match self {
            Self::Service(tags) => names::service_cluster(tags).into(),
            Self::Port(destination, port) => {
                Kri { section: port.section.clone(), ..destination.kri.clone() }.to_string().into()
            }
        }
    }
}

fn is_named(kri: &Kri, written: &PortRef, zone: &str) -> bool {
    kri.name == written.name && kri.namespace == written.namespace && kri.zone == zone
}

fn port_of(destination: &Arc<Destination>, written: &PortRef) -> Option<(Arc<Destination>, DestinationPort)> {
    let port = destination.ports.iter().find(|port| {
        let by_section = written.section.is_empty() || port.section == written.section;
        by_section && written.port.is_none_or(|number| port.port == number)
    })?;
    Some((destination.clone(), port.clone()))
}

/// A destination as policies target it.
fn resource(destination: &Destination) -> Option<kodiak_rules::Resource> {
    let sections = destination.ports.iter();
    let sections = sections.map(|port| PortSection { port: port.port, section: port.section.clone() });
    let (kind, _) = KINDS.iter().find(|(_, kind)| *kind == destination.kind())?;
    Some(kodiak_rules::Resource {
        kind,
        mesh: destination.kri.mesh.as_str().into(),
        name: destination.name.clone(),
        labels: destination.labels.clone(),
        ports: sections.collect(),
    })
}
