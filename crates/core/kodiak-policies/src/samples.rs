//! Test samples of the messages that policies change, compared with YAML.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use kodiak_envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use kodiak_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use kodiak_envoy::envoy::config::route::v3::{RedirectAction, Route, RouteAction, RouteMatch, route, route_match};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::policy::Conf;
use kodiak_model::{Protocol, TargetKind, TargetRef, yaml};
use prost::{Message, Name};
use serde_json::Value;

use crate::target::{
    Backends, Carrier, Chain, Destination, Http, Inbound, Outbound, ProxyFact, ProxyFacts, Tcp, Upstream,
    UpstreamTraffic,
};
use crate::{Confs, Entry, Policy, Source};

pub(crate) fn value(text: &str) -> Value {
    yaml::parse(text).unwrap().into_iter().next().map(|document| document.value).unwrap_or_default()
}

pub(crate) fn conf(text: &str) -> Conf {
    Conf::new(value(text))
}

/// Accepts field names in either spelling; shows a difference as YAML.
#[track_caller]
pub(crate) fn check<M: Message + Name + Default>(message: &M, expected: &str) {
    let expected: M = from_json(&value(expected)).unwrap();
    assert_eq!(shown(message), shown(&expected));
}

fn shown<M: Message + Name>(message: &M) -> String {
    yaml::to_string(&to_json(message).unwrap())
}

/// An entry of `from` for the whole mesh.
pub(crate) fn from(text: &str) -> Entry {
    let target = TargetRef { kind: Some(TargetKind::Mesh.into()), ..TargetRef::default() };
    Entry { policy: "from".into(), source: Source::From(target), conf: conf(text) }
}

/// An entry of `rules`.
pub(crate) fn rule(matches: &str, text: &str) -> Entry {
    let matches = serde_json::from_value(value(matches)).unwrap();
    Entry { policy: "rules".into(), source: Source::Matches(matches), conf: conf(text) }
}

/// A route to `backend`, without any policy.
pub(crate) fn route(name: &str) -> Route {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster("backend".to_owned())),
        timeout: Some(duration(Duration::from_secs(15))),
        idle_timeout: Some(duration(Duration::from_mins(30))),
        ..RouteAction::default()
    };
    route_of(name, route::Action::Route(action))
}

pub(crate) fn redirect(name: &str) -> Route {
    route_of(name, route::Action::Redirect(RedirectAction::default()))
}

fn route_of(name: &str, action: route::Action) -> Route {
    let prefix = route_match::PathSpecifier::Prefix("/".to_owned());
    Route {
        name: name.to_owned(),
        r#match: Some(RouteMatch { path_specifier: Some(prefix), ..RouteMatch::default() }),
        action: Some(action),
        ..Route::default()
    }
}

pub(crate) fn http(routes: Vec<Route>) -> Carrier {
    let manager = HttpConnectionManager::default();
    Carrier::Http(Box::new(Http { manager, routes, filters: Vec::new(), network_filters: Vec::new() }))
}

pub(crate) fn tcp() -> Carrier {
    let proxy = TcpProxy { idle_timeout: Some(duration(Duration::from_hours(1))), ..TcpProxy::default() };
    Carrier::Tcp(Box::new(Tcp { proxy, filters: Vec::new() }))
}

#[track_caller]
pub(crate) fn as_http(carrier: &Carrier) -> &Http {
    match carrier {
        Carrier::Http(http) => http,
        Carrier::Tcp(_) => panic!("not HTTP"),
    }
}

#[track_caller]
pub(crate) fn as_tcp(carrier: &Carrier) -> &Tcp {
    match carrier {
        Carrier::Tcp(tcp) => tcp,
        Carrier::Http(_) => panic!("not TCP"),
    }
}

pub(crate) fn upstream(http: bool) -> Upstream {
    let thresholds = vec![Thresholds { track_remaining: true, ..Thresholds::default() }];
    Upstream {
        cluster: Cluster {
            name: "backend".to_owned(),
            connect_timeout: Some(duration(Duration::from_secs(5))),
            circuit_breakers: Some(CircuitBreakers { thresholds, ..CircuitBreakers::default() }),
            ..Cluster::default()
        },
        http: http.then(HttpProtocolOptions::default),
        traffic: if http { UpstreamTraffic::Http } else { UpstreamTraffic::Tcp },
    }
}

/// A cluster that the policy changed.
pub(crate) fn cluster(policy: &dyn Policy, text: &str) -> Upstream {
    let mut upstream = upstream(true);
    policy.cluster(&conf(text), &mut upstream);
    upstream
}

/// A route or TCP proxy of a destination with this protocol, after the policy changed it.
pub(crate) fn outbound(policy: &dyn Policy, confs: &Confs, protocol: Protocol, carrier: Carrier) -> Carrier {
    let backends = Backends::default();
    let mut outbound = to_backend(protocol, carrier, &backends);
    policy.outbound(confs, &mut outbound);
    outbound.carrier
}

pub(crate) fn to_backend(protocol: Protocol, carrier: Carrier, backends: &Backends) -> Outbound<'_> {
    Outbound {
        mesh: "default",
        cluster: "backend",
        destination: Destination::Service("backend"),
        protocol,
        carrier,
        backends,
        route_names: &NO_NAMES,
        facts: &FACTS,
    }
}

static NO_NAMES: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();

/// A replica of `web` in zone `east`.
pub(crate) static FACTS: LazyLock<ProxyFacts> = LazyLock::new(|| {
    let facts =
        [(ProxyFact::Service, "web"), (ProxyFact::Workload, "kri_wl_default_east__web_"), (ProxyFact::Zone, "east")];
    facts.map(|(fact, value)| (fact, value.into())).into()
});

pub(crate) fn for_all(text: &str) -> Confs {
    Confs { whole: Some(conf(text)), ..Confs::default() }
}

/// One filter chain without mTLS and one with it.
pub(crate) fn inbound(policy: &dyn Policy, entries: &[Entry], carrier: &Carrier) -> Inbound<'static> {
    let (protocol, is_http) = match carrier {
        Carrier::Http(_) => (Protocol::Http, true),
        Carrier::Tcp(_) => (Protocol::Tcp, false),
    };
    let mut inbound = Inbound {
        mesh: "default",
        listener: "inbound:10.0.0.1:80",
        protocol,
        service: "backend",
        chains: [false, true].map(|mtls| Chain { mtls, carrier: carrier.clone() }).into(),
        inspects_tls: false,
        facts: &FACTS,
        workload: upstream(is_http),
    };
    policy.inbound(entries, &mut inbound);
    inbound
}
