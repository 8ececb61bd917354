//! What policies say about the calls of a class, by destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Protocol, TargetKind,
    policy::{Conf, ConfShape},
    tags,
};
use kodiak_policies::{Confs, target::BackendKey};
use kodiak_rules::{
    Policy, Resources,
    subset::{self, ROUTE_HASH, Rule},
};
use kodiak_xds::{
    input::{ByKind, Carried, Tags},
    names,
};

/// The names of the policies of each kind that are about the calls of a proxy, weakest first.
pub(crate) type Lists = Arc<[(&'static str, Arc<[Arc<str>]>)]>;

/// The destinations that a policy is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Targets {
    All,
    Services(BTreeSet<Arc<str>>),
}

impl Default for Targets {
    fn default() -> Self {
        Self::Services(BTreeSet::new())
    }
}

impl Targets {
    pub(crate) fn of(policy: &Policy) -> Self {
        let top = policy.body.target.as_ref().and_then(kodiak_model::TargetRef::known_kind);
        if top == Some(TargetKind::MeshHTTPRoute) {
            return Self::All;
        }
        let named = policy.body.to.iter().map(|item| match item.target.known_kind() {
            Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => item.target.name.as_deref(),
            _ => None,
        });
        named.map(|name| name.map(Arc::from)).collect::<Option<_>>().map_or(Self::All, Self::Services)
    }

    pub(crate) fn extend(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Services(own), Self::Services(more)) => own.extend(more),
            (Self::All, _) => (),
            (own, Self::All) => *own = Self::All,
        }
    }
}

/// The merged rules of a class.
#[derive(Clone, Default)]
pub(crate) struct Rules(Vec<OfKind>);

#[derive(Clone)]
struct OfKind {
    policy: &'static dyn kodiak_policies::Policy,
    shape: ConfShape,
    answers: Answers,
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
    routed: Option<Carried>,
}

impl Said {
    /// Requests are routed where a policy routes them; connections where one does and nobody routes requests.
    pub(crate) fn carried(&self, protocol: Protocol) -> Carried {
        self.routed.unwrap_or_else(|| Carried::by(protocol))
    }
}

impl Rules {
    /// `find` knows the policies by kind and name.
    pub(crate) fn of<'a>(
        lists: &Lists,
        resources: &Arc<Resources>,
        find: impl Fn(&'static str, &Arc<str>) -> Option<&'a Arc<Policy>>,
    ) -> Self {
        let of_kind = |(kind, names): &(&'static str, Arc<[Arc<str>]>)| {
            let policies: Vec<Arc<Policy>> = names.iter().filter_map(|name| find(kind, name)).cloned().collect();
            let policy = kodiak_policies::in_force().iter().find(|policy| policy.kind().name == *kind)?;
            Some(OfKind::new(*policy, policies, resources))
        };
        Self(lists.iter().filter_map(of_kind).collect())
    }

    pub(crate) fn about(&self, service: &str) -> Said {
        let (mut said, mut listener, mut cluster) = (Said::default(), ByKind::new(), ByKind::new());
        let mut routes: BTreeSet<Arc<str>> = BTreeSet::from([names::CATCH_ALL_ROUTE.into()]);
        for of_kind in &self.0 {
            let Some(conf) = of_kind.conf(service) else { continue };
            said.backends.extend(of_kind.policy.backends(&conf).iter().filter_map(BackendKey::of));
            routes.extend(of_kind.policy.routes(&conf));
            match of_kind.shape {
                ConfShape::Routes => said.routed = Some(Carried::Http),
                ConfShape::FirstRule => said.routed = said.routed.or(Some(Carried::Tcp)),
                ConfShape::Default => (),
            }
        }
        for of_kind in &self.0 {
            let whole = of_kind.conf(service);
            let confs = Confs { routes: of_kind.of_routes(service, &routes, whole.as_ref()), whole };
            if confs == Confs::default() {
                continue;
            }
            let kind = of_kind.policy.kind().name;
            cluster.extend(confs.whole.clone().map(|conf| (kind, conf)));
            listener.insert(kind, confs);
        }
        said.cluster = Arc::new(cluster);
        said.listener = Arc::new(listener);
        said
    }
}

impl OfKind {
    fn new(
        policy: &'static dyn kodiak_policies::Policy,
        policies: Vec<Arc<Policy>>,
        resources: &Arc<Resources>,
    ) -> Self {
        let shape = policy.kind().policy.map_or(ConfShape::Default, |facts| facts.conf);
        // What cannot be said with tags is said in the status of the policies.
        let rules = subset::to(&policies, resources).unwrap_or_default();
        let answers = by_service(&rules).unwrap_or_else(|| Answers::Asked { policies, resources: resources.clone() });
        Self { policy, shape, answers }
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
