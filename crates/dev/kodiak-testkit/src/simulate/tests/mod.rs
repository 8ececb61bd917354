//! Small configurations, and how they handle calls. kodiak-dp's tests compare the same with a real Envoy.

mod calls;
mod chains;
mod clusters;
mod permissions;
mod routes;

use kodiak_envoy::envoy::config::bootstrap::v3::bootstrap::StaticResources;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::json::from_json;
use kodiak_model::yaml;
use prost::{Message, Name};

use super::{Answer, Connection, Forwarded, Refusal, Request, Sent, SimulatedProxy, TlsPeer};

/// YAML in which `TYPE` stands for the prefix of all type URLs.
fn message<M: Message + Name + Default>(text: &str) -> M {
    let text = text.replace("TYPE", "type.googleapis.com/envoy.extensions");
    from_json(&yaml::parse(&text).unwrap().remove(0).value).unwrap()
}

/// Listeners and clusters, and the endpoints of EDS clusters.
fn proxy(resources: &str, assignments: &[&str]) -> SimulatedProxy {
    let StaticResources { listeners, clusters, .. } = message(resources);
    SimulatedProxy::new(
        listeners,
        clusters,
        assignments.iter().map(|one| message::<ClusterLoadAssignment>(one)).collect(),
    )
}

/// HTTP over one listener at 10.0.0.1:80, with these filters before the router, and these routes for all domains.
/// Clusters `a` and `b` exist.
fn http(filters: &str, routes: &str) -> SimulatedProxy {
    let (filters, routes) = (indented(filters, 10), indented(routes, 14));
    proxy(
        &format!(
            r#"
listeners:
- name: http
  address: {{socket_address: {{address: 10.0.0.1, port_value: 80}}}}
  filter_chains:
  - filters:
    - name: manager
      typed_config:
        "@type": TYPE.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: http
        http_filters:
{filters}
          - {{name: router, typed_config: {{"@type": TYPE.filters.http.router.v3.Router}}}}
        route_config:
          virtual_hosts:
          - name: all
            domains: ["*"]
            routes:
{routes}
clusters:
- {A}
- {B}
"#
        ),
        &[],
    )
}

const A: &str = "{name: a, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: \
                 {socket_address: {address: 10.0.1.1, port_value: 80}}}}]}]}}";
const B: &str = "{name: b, load_assignment: {cluster_name: b, endpoints: [{lb_endpoints: [{endpoint: {address: \
                 {socket_address: {address: 10.0.1.2, port_value: 80}}}}]}]}}";

/// A filter chain with this match and a TCP proxy to a cluster.
fn tcp_chain(matched: &str, cluster: &str) -> String {
    let proxy = format!(r#""@type": TYPE.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: {cluster}"#);
    format!("{{filter_chain_match: {matched}, filters: [{{name: tcp, typed_config: {{{proxy}}}}}]}}")
}

fn static_cluster(name: &str) -> String {
    A.replace("name: a", &format!("name: {name}"))
}

fn indented(text: &str, spaces: usize) -> String {
    let lines: Vec<String> = text.trim().lines().map(|line| " ".repeat(spaces) + line).collect();
    lines.join("\n")
}

fn plain() -> Connection {
    Connection::default()
}

fn tls(uris: &[&str], sni: &str, alpn: &[&str]) -> Connection {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Connection { tls: Some(TlsPeer { uris: owned(uris), issuer: None, sni: sni.to_owned(), alpn: owned(alpn) }) }
}

#[track_caller]
fn forwarded(sent: Result<Sent, Refusal>) -> Forwarded {
    match sent.unwrap().answer {
        Answer::Forwarded(forwarded) => *forwarded,
        other => panic!("not forwarded: {other:?}"),
    }
}

#[track_caller]
fn unsupported(sent: Result<Sent, Refusal>, what: &str) {
    match sent {
        Err(Refusal::Unsupported(text)) => assert!(text.contains(what), "{text}"),
        other => panic!("not unsupported: {other:?}"),
    }
}

fn get(path: &str) -> Request {
    Request::get("backend", path)
}
