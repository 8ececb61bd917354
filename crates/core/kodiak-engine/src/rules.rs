//! What policies say about the calls of a class, by destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Protocol,
    policy::{Conf, ConfShape},
    tags,
};
use kodiak_policies::{Confs, target::BackendKey};
use kodiak_rules::{
    Policy, Resource, Resources,
    outbound::{Asked, Era, ResourceRule},
    subset::{self, ROUTE_HASH, Rule},
};
use kodiak_xds::{
    input::{ByKind, Carried, Tags},
    names,
};

/// The names of the policies of each kind that are about the calls of a proxy, weakest first.
pub(crate) type Lists = Arc<[(&'static str, Arc<[Arc<str>]>)]>;

/// The merged rules of a class.
#[derive(Clone, Default)]
pub(crate) struct Rules(Vec<OfKind>);

#[derive(Clone)]
struct OfKind {
    policy: &'static dyn kodiak_policies::Policy,
    shape: ConfShape,
    answers: Answers,
    /// About resources.
    asked: Asked,
}

/// How to find what is said about a destination.
#[derive(Clone)]
enum Answers {
    /// By its name alone; what is said of no service is said of all others.
    ByService { confs: BTreeMap<String, Conf>, others: Option<Conf> },
    /// Routes may be told apart too, so everything is looked at again.
    Asked { policies: Vec<Arc<Policy>>, resources: Arc<Resources> },
}

/// What is said about one destination.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) cluster: Arc<ByKind<Conf>>,
    pub(crate) listener: Arc<ByKind<Confs>>,
    /// Where calls go besides the destination itself.
    pub(crate) backends: BTreeSet<BackendKey>,
    /// The routes whose policies are known, by the hashes of their matches.
    pub(crate) route_names: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    routed: Option<Carried>,
}

impl Said {
    /// Requests are routed where a policy routes them; connections where one does and nobody routes requests.
    pub(crate) fn carried(&self, protocol: Protocol) -> Carried {
        self.routed.unwrap_or_else(|| Carried::by(protocol))
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
    /// `find` knows the policies by kind and name.
    pub(crate) fn of<'a>(
        lists: &Lists,
        resources: &Arc<Resources>,
        era: Era,
        find: impl Fn(&'static str, &Arc<str>) -> Option<&'a Arc<Policy>>,
    ) -> Self {
        let of_kind = |(kind, names): &(&'static str, Arc<[Arc<str>]>)| {
            let policies: Vec<Arc<Policy>> = names.iter().filter_map(|name| find(kind, name)).cloned().collect();
            let policy = kodiak_policies::in_force().iter().find(|policy| policy.kind().name == *kind)?;
            Some(OfKind::new(*policy, policies, resources, era))
        };
        Self(lists.iter().filter_map(of_kind).collect())
    }

    pub(crate) fn about(&self, service: &str) -> Said {
        let mut said = Said::default();
        let wholes: Vec<Option<Conf>> = self.0.iter().map(|of_kind| of_kind.conf(service)).collect();
        let routes = self.route(&wholes, &mut said);
        let confs = self.0.iter().zip(wholes).map(|(of_kind, whole)| {
            let routes = of_kind.of_routes(service, &routes, whole.as_ref());
            (of_kind.policy.kind().name, Confs { whole, routes })
        });
        said.with(confs)
    }

    /// What is said about a port of a resource.
    pub(crate) fn about_port(&self, resource: &Resource, section: &str) -> Said {
        let mut said = Said::default();
        let rules: Vec<Option<ResourceRule>> =
            self.0.iter().map(|of_kind| of_kind.asked.about(resource, section)).collect();
        let wholes: Vec<Option<Conf>> =
            rules.iter().map(|rule| rule.as_ref().and_then(|rule| rule.confs.first()).cloned()).collect();
        self.route(&wholes, &mut said);
        let routed = rules.iter().flatten().flat_map(|rule| &rule.by_matches);
        let policies: BTreeMap<Arc<str>, &Policy> =
            routed.map(|(hash, entry)| (hash.as_str().into(), &*entry.policy)).collect();
        said.route_names =
            Arc::new(policies.iter().map(|(hash, policy)| (hash.clone(), policy.kri().to_string().into())).collect());
        let confs = self.0.iter().zip(wholes).map(|(of_kind, whole)| {
            let of_route = |(hash, policy): (&Arc<str>, &&Policy)| {
                let rule = of_kind.asked.about_route(&as_resource(policy))?;
                Some((hash.clone(), rule.confs.first()?.clone()))
            };
            let routes = policies.iter().filter_map(of_route).filter(|(_, conf)| Some(conf) != whole.as_ref());
            (of_kind.policy.kind().name, Confs { routes: routes.collect(), whole })
        });
        said.with(confs)
    }

    /// Where calls are sent. The names of routes that are made on the way.
    fn route(&self, wholes: &[Option<Conf>], said: &mut Said) -> BTreeSet<Arc<str>> {
        let mut routes: BTreeSet<Arc<str>> = BTreeSet::from([names::CATCH_ALL_ROUTE.into()]);
        for (of_kind, conf) in self.0.iter().zip(wholes).filter_map(|(of_kind, conf)| Some((of_kind, conf.as_ref()?))) {
            said.backends.extend(of_kind.policy.backends(conf).iter().filter_map(BackendKey::of));
            routes.extend(of_kind.policy.routes(conf));
            match of_kind.shape {
                ConfShape::Routes => said.routed = Some(Carried::Http),
                ConfShape::FirstRule => said.routed = said.routed.or(Some(Carried::Tcp)),
                ConfShape::Default => (),
            }
        }
        routes
    }
}

/// A route is what other policies refer to.
fn as_resource(policy: &Policy) -> Resource {
    let Policy { kind, mesh, name, labels, .. } = policy;
    Resource { kind, mesh: mesh.clone(), name: name.clone(), labels: labels.clone(), ports: Vec::new() }
}

impl OfKind {
    fn new(
        policy: &'static dyn kodiak_policies::Policy,
        policies: Vec<Arc<Policy>>,
        resources: &Arc<Resources>,
        era: Era,
    ) -> Self {
        let asked = Asked::new(&policies, era);
        let shape = policy.kind().policy.map_or(ConfShape::Default, |facts| facts.conf);
        // What cannot be said with tags is said in the status of the policies.
        let rules = subset::to(&policies, resources).unwrap_or_default();
        let answers = by_service(&rules).unwrap_or_else(|| Answers::Asked { policies, resources: resources.clone() });
        Self { policy, shape, answers, asked }
    }

    fn conf(&self, service: &str) -> Option<Conf> {
        match &self.answers {
            Answers::ByService { confs, others } => confs.get(service).or(others.as_ref()).cloned(),
            Answers::Asked { policies, resources } => ask(policies, resources, &[(tags::SERVICE, service)]),
        }
    }

    /// For routes about which something else is said than for the whole.
    fn of_routes(&self, service: &str, routes: &BTreeSet<Arc<str>>, whole: Option<&Conf>) -> BTreeMap<Arc<str>, Conf> {
        let Answers::Asked { policies, resources } = &self.answers else { return BTreeMap::new() };
        let conf = |route: &Arc<str>| {
            let conf = ask(policies, resources, &[(tags::SERVICE, service), (ROUTE_HASH, route)])?;
            (Some(&conf) != whole).then(|| (route.clone(), conf))
        };
        routes.iter().filter_map(conf).collect()
    }
}

/// `None` where more than the name of a service counts.
fn by_service(rules: &[Rule]) -> Option<Answers> {
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
    Some(Answers::ByService { confs, others })
}

fn ask(policies: &[Arc<Policy>], resources: &Resources, tags: &[(&str, &str)]) -> Option<Conf> {
    subset::for_destination(policies, resources, tags).ok()?.into_iter().next().map(|rule| rule.conf)
}

/// What callers of a class have of the tags that confs look at: the first value of each.
pub(crate) fn caller(policies: &[&Policy], dataplane: &kodiak_model::kinds::dataplane::Dataplane) -> Tags {
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
        let value = own.iter().filter_map(|tags| tags.get(&key)).min()?.clone();
        Some((key, value))
    };
    keys.into_iter().filter_map(value).collect()
}
