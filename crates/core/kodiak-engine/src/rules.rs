//! Outbound policies of a class, merged for each destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Protocol, TargetKind,
    policy::{self, Conf, ConfShape},
    tags,
};
use kodiak_policies::{
    Confs,
    target::{BackendKey, Collector, ProxyFacts},
};
use kodiak_rules::{
    Policy, Resource, Resources,
    outbound::{Asked, NameResolution, ResourceRule},
    subset::{self, ROUTE_HASH, Rule},
};
use kodiak_xds::{
    input::{ByKind, Carried, Tags},
    names,
};

use crate::{
    interest::Interest,
    proxy_facts,
    target::{ClusterTarget, Target},
};

/// Names of the outbound policies that select a proxy, by kind, in ascending precedence.
pub(crate) type Lists = Arc<[(&'static str, Arc<[Arc<str>]>)]>;

/// The merged rules of a class.
#[derive(Clone, Default)]
pub(crate) struct Rules(Vec<KindRules>);

#[derive(Clone)]
struct KindRules {
    policy: &'static dyn kodiak_policies::Policy,
    shape: ConfShape,
    services: ServiceLookup,
    /// Rules for MeshServices and the like, and their ports.
    by_resource: Asked,
    /// Conf of policies without lists, for all destinations.
    everywhere: Option<Conf>,
    /// Conf for addresses outside the mesh, of policies that apply to them.
    outside: Option<Conf>,
    /// Destinations that routes select, if these are routes. `None`: it may be any.
    routed: Option<BTreeSet<Interest>>,
}

/// Finds the merged configuration of a `kuma.io/service`.
#[derive(Clone)]
enum ServiceLookup {
    /// Rules match by service name alone; `others` is for services without a rule of their own.
    ByService { confs: BTreeMap<String, Conf>, others: Option<Conf> },
    /// Rules match by other tags too, so that each lookup evaluates all policies.
    Evaluated { policies: Vec<Arc<Policy>>, resources: Arc<Resources> },
}

/// Merged configuration of one destination.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MergedConf {
    pub(crate) cluster: Arc<ByKind<Conf>>,
    pub(crate) listener: Arc<ByKind<Confs>>,
    /// Backends of MeshHTTPRoutes, if one selects the destination.
    http_route: Option<BTreeSet<BackendKey>>,
    /// Backends of MeshTCPRoutes, if one selects the destination.
    tcp_route: Option<BTreeSet<BackendKey>>,
    /// KRI of the policy of each route, by the hash of its matches.
    pub(crate) route_names: Arc<BTreeMap<Arc<str>, Arc<str>>>,
}

impl MergedConf {
    pub(crate) fn carried(&self, protocol: Option<Protocol>) -> Carried {
        Carried::with_routes(protocol, self.http_route.is_some(), self.tcp_route.is_some())
    }

    /// The conf of the routes that apply, if one does.
    pub(crate) fn route(&self, carried: Carried) -> Option<(&'static dyn kodiak_policies::Policy, &Conf)> {
        let wanted = match carried {
            Carried::Http => ConfShape::Routes,
            Carried::Tcp => ConfShape::FirstRule,
        };
        self.listener.iter().find_map(|(kind, confs)| {
            let policy = kodiak_policies::find(kind)?;
            let shape = policy.kind().policy.map(|facts| facts.conf);
            (shape == Some(wanted)).then_some((policy, confs.whole.as_ref()?))
        })
    }

    /// Clusters of the collectors that listeners with these confs reference.
    pub(crate) fn collectors(&self) -> impl Iterator<Item = ClusterTarget> {
        self.used_collectors().map(ClusterTarget::Collector)
    }

    pub(crate) fn used_collectors(&self) -> impl Iterator<Item = Arc<Collector>> {
        let confs = self.listener.iter().filter_map(|(kind, confs)| Some((kodiak_policies::find(kind)?, confs)));
        let collectors = confs.flat_map(|(policy, confs)| {
            confs.whole.iter().chain(confs.routes.values()).flat_map(move |conf| policy.collectors(conf))
        });
        collectors.map(Arc::new)
    }

    /// Facts about a proxy that listeners with these confs need.
    pub(crate) fn facts(&self, all: &ProxyFacts) -> Arc<ProxyFacts> {
        let confs = self
            .listener
            .iter()
            .flat_map(|(kind, confs)| confs.whole.iter().chain(confs.routes.values()).map(|conf| (*kind, conf)));
        proxy_facts::for_confs(all, confs)
    }

    /// Backends of the routes that apply.
    pub(crate) fn backends(&self, carried: Carried) -> impl Iterator<Item = &BackendKey> {
        let route = match carried {
            Carried::Http => &self.http_route,
            Carried::Tcp => &self.tcp_route,
        };
        route.iter().flatten()
    }

    fn with(self, confs: impl Iterator<Item = (&'static str, Confs)>) -> Self {
        let (mut listener, mut cluster) = (ByKind::new(), ByKind::new());
        for (kind, confs) in confs.filter(|(_, confs)| *confs != Confs::default()) {
            cluster.extend(confs.whole.clone().map(|conf| (kind, conf)));
            listener.insert(kind, confs);
        }
        Self { cluster: Arc::new(cluster), listener: Arc::new(listener), ..self }
    }
}

impl Rules {
    /// `find` looks up a policy by kind and name.
    pub(crate) fn of<'a>(
        lists: &Lists,
        resources: &Arc<Resources>,
        resolution: NameResolution,
        find: impl Fn(&'static str, &Arc<str>) -> Option<&'a Arc<Policy>>,
    ) -> Self {
        let kind_rules = |(kind, names): &(&'static str, Arc<[Arc<str>]>)| {
            let policies: Vec<Arc<Policy>> = names.iter().filter_map(|name| find(kind, name)).cloned().collect();
            Some(KindRules::new(kodiak_policies::find(kind)?, policies, resources, resolution))
        };
        Self(lists.iter().filter_map(kind_rules).collect())
    }

    pub(crate) fn have_routes(&self) -> bool {
        self.0.iter().any(|kind_rules| kind_rules.shape != ConfShape::Default)
    }

    /// Destinations that a route selects. `None`: it may be any.
    pub(crate) fn routed(&self) -> Option<impl Iterator<Item = &Interest>> {
        let all: Option<Vec<_>> = self.0.iter().map(|kind_rules| kind_rules.routed.as_ref()).collect();
        all.map(|all| all.into_iter().flatten())
    }

    /// Configuration of connections to addresses outside the mesh.
    pub(crate) fn for_passthrough(&self) -> MergedConf {
        let confs = |kind_rules: &KindRules| {
            let whole = kind_rules.everywhere.clone().filter(|_| kind_rules.policy.applies_to_passthrough());
            let whole = Some(whole.or_else(|| kind_rules.outside.clone())?);
            Some((kind_rules.policy.kind().name, Confs { whole, ..Confs::default() }))
        };
        let listener: ByKind<Confs> = self.0.iter().filter_map(confs).collect();
        MergedConf { listener: Arc::new(listener), ..MergedConf::default() }
    }

    pub(crate) fn for_service(&self, service: &str) -> MergedConf {
        let mut merged = MergedConf::default();
        let wholes: Vec<Option<Conf>> = self.0.iter().map(|kind_rules| kind_rules.conf(service)).collect();
        let routes = self.route(&wholes, &mut merged);
        let confs = self.0.iter().zip(wholes).map(|(kind_rules, whole)| {
            let routes = kind_rules.for_routes(service, &routes, whole.as_ref());
            (kind_rules.policy.kind().name, Confs { whole, routes })
        });
        merged.with(confs)
    }

    /// Merged configuration of a port of a resource.
    pub(crate) fn for_port(&self, resource: &Resource, section: &str) -> MergedConf {
        let mut merged = MergedConf::default();
        let rules: Vec<Option<ResourceRule>> =
            self.0.iter().map(|kind_rules| kind_rules.by_resource.about(resource, section)).collect();
        let whole = |(kind_rules, rule): (&KindRules, &Option<ResourceRule>)| {
            kind_rules.everywhere.clone().or_else(|| rule.as_ref()?.confs.first().cloned())
        };
        let wholes: Vec<Option<Conf>> = self.0.iter().zip(&rules).map(whole).collect();
        self.route(&wholes, &mut merged);
        let by_matches = rules.iter().flatten().flat_map(|rule| &rule.by_matches);
        let policies: BTreeMap<Arc<str>, &Policy> =
            by_matches.map(|(hash, entry)| (hash.as_str().into(), &*entry.policy)).collect();
        merged.route_names =
            Arc::new(policies.iter().map(|(hash, policy)| (hash.clone(), policy.kri().to_string().into())).collect());
        let confs = self.0.iter().zip(wholes).map(|(kind_rules, whole)| {
            let of_route = |(hash, policy): (&Arc<str>, &&Policy)| {
                let rule = kind_rules.by_resource.about_route(&as_resource(policy))?;
                Some((hash.clone(), rule.confs.first()?.clone()))
            };
            let routes = policies.iter().filter_map(of_route).filter(|(_, conf)| Some(conf) != whole.as_ref());
            (kind_rules.policy.kind().name, Confs { routes: routes.collect(), whole })
        });
        merged.with(confs)
    }

    /// Adds the backends of routes to `merged`. Returns the names of these routes.
    fn route(&self, wholes: &[Option<Conf>], merged: &mut MergedConf) -> BTreeSet<Arc<str>> {
        let mut routes: BTreeSet<Arc<str>> = BTreeSet::from([names::CATCH_ALL_ROUTE.into()]);
        for (kind_rules, conf) in
            self.0.iter().zip(wholes).filter_map(|(kind_rules, conf)| Some((kind_rules, conf.as_ref()?)))
        {
            routes.extend(kind_rules.policy.routes(conf));
            let route = match kind_rules.shape {
                ConfShape::Routes => &mut merged.http_route,
                ConfShape::FirstRule => &mut merged.tcp_route,
                ConfShape::Default => continue,
            };
            let backends = kind_rules.policy.backends(conf);
            route.get_or_insert_default().extend(backends.iter().filter_map(BackendKey::of));
        }
        routes
    }
}

/// A route as other policies target it.
fn as_resource(policy: &Policy) -> Resource {
    let Policy { kind, mesh, name, labels, .. } = policy;
    Resource { kind, mesh: mesh.clone(), name: name.clone(), labels: labels.clone(), ports: Vec::new() }
}

impl KindRules {
    fn new(
        policy: &'static dyn kodiak_policies::Policy,
        policies: Vec<Arc<Policy>>,
        resources: &Arc<Resources>,
        resolution: NameResolution,
    ) -> Self {
        let everywhere = policies.first().is_some_and(|policy| policy.body.default.is_some());
        let everywhere = everywhere.then(|| subset::single(&policies)).flatten().map(|rule| rule.conf);
        let outside = outside(policy, &policies);
        let by_resource = Asked::new(&policies, resolution);
        let shape = policy.kind().policy.map_or(ConfShape::Default, |facts| facts.conf);
        // Policies that rules by tags cannot express are reported in their status.
        let rules = subset::to(&policies, resources).unwrap_or_default();
        let by_service = by_service(&rules);
        let routed = match shape {
            ConfShape::Default => Some(BTreeSet::new()),
            ConfShape::Routes | ConfShape::FirstRule => routed(by_service.as_ref(), &policies),
        };
        let services =
            by_service.unwrap_or_else(|| ServiceLookup::Evaluated { policies, resources: resources.clone() });
        Self { policy, shape, services, by_resource, everywhere, outside, routed }
    }

    fn conf(&self, service: &str) -> Option<Conf> {
        if self.everywhere.is_some() {
            return self.everywhere.clone();
        }
        match &self.services {
            ServiceLookup::ByService { confs, others } => confs.get(service).or(others.as_ref()).cloned(),
            ServiceLookup::Evaluated { policies, resources } => {
                evaluate(policies, resources, &[(tags::SERVICE, service)])
            }
        }
    }

    /// Configuration of routes for which it differs from that of the whole destination.
    fn for_routes(&self, service: &str, routes: &BTreeSet<Arc<str>>, whole: Option<&Conf>) -> BTreeMap<Arc<str>, Conf> {
        let ServiceLookup::Evaluated { policies, resources } = &self.services else { return BTreeMap::new() };
        let conf = |route: &Arc<str>| {
            let conf = evaluate(policies, resources, &[(tags::SERVICE, service), (ROUTE_HASH, route)])?;
            (Some(&conf) != whole).then(|| (route.clone(), conf))
        };
        routes.iter().filter_map(conf).collect()
    }
}

/// Merged conf of the `to` items for the whole mesh.
fn outside(policy: &dyn kodiak_policies::Policy, policies: &[Arc<Policy>]) -> Option<Conf> {
    if !policy.applies_to_passthrough() {
        return None;
    }
    let items = policies.iter().flat_map(|policy| &policy.body.to);
    let mut confs =
        items.filter(|item| item.target.known_kind() == Some(TargetKind::Mesh)).map(|item| &item.conf).peekable();
    confs.peek()?;
    Some(policy::merge(confs))
}

/// `None` if a rule matches by more than the name of a service.
fn by_service(rules: &[Rule]) -> Option<ServiceLookup> {
    let (mut confs, mut others) = (BTreeMap::new(), None);
    for rule in rules {
        match rule.subset.as_slice() {
            [] => others = others.or_else(|| Some(rule.conf.clone())),
            [tag] if tag.key == tags::SERVICE && !tag.not => {
                confs.entry(tag.value.clone()).or_insert_with(|| rule.conf.clone());
            }
            _ => return None,
        }
    }
    Some(ServiceLookup::ByService { confs, others })
}

/// Destinations that routes select. `None`: it may be any.
fn routed(services: Option<&ServiceLookup>, policies: &[Arc<Policy>]) -> Option<BTreeSet<Interest>> {
    let Some(ServiceLookup::ByService { confs, others: None }) = services else { return None };
    let mut all: BTreeSet<Interest> =
        confs.keys().map(|name| Interest::Target(Target::Service(name.as_str().into()))).collect();
    for policy in policies {
        all.extend(Interest::of_policy(policy).filter(|_| policy.body.default.is_none())?);
    }
    Some(all)
}

fn evaluate(policies: &[Arc<Policy>], resources: &Resources, tags: &[(&str, &str)]) -> Option<Conf> {
    subset::for_destination(policies, resources, tags).ok()?.into_iter().next().map(|rule| rule.conf)
}

/// Tags of the caller that its outbound policies match on, with the first value of each; else its labels.
pub(crate) fn caller_tags(policies: &[&Policy], proxy: &kodiak_rules::Proxy) -> Tags {
    let dataplane = &proxy.dataplane;
    let hooks = kodiak_policies::in_force();
    let hook = |policy: &Policy| hooks.iter().find(|hook| hook.kind().name == policy.kind.name).copied();
    let keys = policies.iter().filter_map(|policy| Some((policy, hook(policy)?)));
    let keys: BTreeSet<String> = keys
        .flat_map(|(policy, hook)| policy.body.to.iter().flat_map(move |item| hook.caller_tags(&item.conf)))
        .collect();
    let own: Vec<&Tags> = dataplane
        .inbounds()
        .iter()
        .map(|inbound| &inbound.tags)
        .chain(dataplane.gateway().map(|gateway| &gateway.tags))
        .collect();
    let value = |key: String| {
        let tag = own.iter().filter_map(|tags| tags.get(&key)).min();
        let value = tag.or_else(|| proxy.labels.get(&key))?.clone();
        Some((key, value))
    };
    keys.into_iter().filter_map(value).collect()
}
