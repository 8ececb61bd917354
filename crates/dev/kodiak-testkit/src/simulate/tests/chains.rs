//! Selection of listeners and filter chains.

use super::*;

fn listener(address: &str, port: u16, more: &str, chains: &[String]) -> String {
    let chains = chains.join(", ");
    let socket = format!("{{socket_address: {{address: \"{address}\", port_value: {port}}}}}");
    format!("{{name: \"{address}:{port}\", address: {socket}, {more} filter_chains: [{chains}]}}")
}

fn with(listeners: &[String], clusters: &[&str]) -> SimulatedProxy {
    let clusters: Vec<String> = clusters.iter().map(|name| static_cluster(name)).collect();
    proxy(&format!("{{listeners: [{}], clusters: [{}]}}", listeners.join(", "), clusters.join(", ")), &[])
}

fn to(cluster: &str) -> Vec<String> {
    vec![tcp_chain("{}", cluster)]
}

const REDIRECTS: &str = "use_original_dst: true, traffic_direction: OUTBOUND,";

#[test]
fn exact_address_comes_before_wildcard_address() {
    let listeners = [listener("0.0.0.0", 80, "", &to("any")), listener("10.0.0.1", 80, "", &to("one"))];
    let proxy = with(&listeners, &["any", "one"]);
    let cluster = |address: &str| forwarded(proxy.outbound(address, 80, &Request::bytes(), &plain())).cluster;
    assert_eq!(cluster("10.0.0.1"), "one");
    assert_eq!(cluster("10.0.0.2"), "any");
    let refusal = proxy.outbound("10.0.0.1", 81, &Request::bytes(), &plain()).unwrap_err();
    assert_eq!(refusal, Refusal::NoListener { address: "10.0.0.1".to_owned(), port: 81 });
}

#[test]
fn unbound_listener_gets_redirected_connections() {
    let hidden = listener("10.0.0.1", 80, "bind_to_port: false,", &to("hidden"));
    let redirecting = listener("0.0.0.0", 15001, REDIRECTS, &to("passthrough"));
    let proxy = with(&[hidden.clone(), redirecting.clone()], &["hidden", "passthrough"]);
    let cluster = |address: &str| forwarded(proxy.outbound(address, 80, &Request::bytes(), &plain())).cluster;
    assert_eq!(cluster("10.0.0.1"), "hidden");
    assert_eq!(cluster("10.9.9.9"), "passthrough");
    let alone = with(&[hidden], &["hidden"]);
    assert!(alone.outbound("10.0.0.1", 80, &Request::bytes(), &plain()).is_err());
    // An outbound redirection listener does not redirect inbound connections.
    let outward = with(&[redirecting], &["passthrough"]);
    assert!(outward.inbound("10.0.0.1", 80, &Request::bytes(), &plain()).is_err());
}

#[test]
fn ipv6_addresses_are_compared_by_value() {
    let proxy = with(&[listener("fd00::1", 80, "", &to("six"))], &["six"]);
    assert_eq!(forwarded(proxy.outbound("fd00:0::1", 80, &Request::bytes(), &plain())).cluster, "six");
}

const INSPECTS: &str =
    r#"listener_filters: [{name: tls, typed_config: {"@type": TYPE.filters.listener.tls_inspector.v3.TlsInspector}}],"#;

fn chosen(chains: &[(&str, &str)], connection: &Connection) -> Result<String, Refusal> {
    let listener = listener("0.0.0.0", 80, INSPECTS, &chains.iter().map(|(m, c)| tcp_chain(m, c)).collect::<Vec<_>>());
    let names: Vec<&str> = chains.iter().map(|(_, cluster)| *cluster).collect();
    let sent = with(&[listener], &names).inbound("10.0.0.1", 80, &Request::bytes(), connection)?;
    Ok(sent.forwarded().unwrap().cluster.clone())
}

#[test]
fn chains_are_matched_by_transport_and_alpn() {
    let chains = [
        ("{transport_protocol: raw_buffer}", "plain"),
        ("{transport_protocol: tls}", "workload"),
        ("{transport_protocol: tls, application_protocols: [kuma]}", "mesh"),
    ];
    assert_eq!(chosen(&chains, &plain()).unwrap(), "plain");
    assert_eq!(chosen(&chains, &tls(&[], "", &[])).unwrap(), "workload");
    assert_eq!(chosen(&chains, &tls(&[], "", &["h2"])).unwrap(), "workload");
    assert_eq!(chosen(&chains, &tls(&[], "", &["h2", "kuma"])).unwrap(), "mesh");
}

#[test]
fn best_server_name_match_is_final() {
    let chains = [
        ("{server_names: [a.test]}", "exact"),
        ("{server_names: ['*.test']}", "wild"),
        ("{server_names: ['*.long.test'], application_protocols: [h2]}", "longer"),
        ("{}", "rest"),
    ];
    let name = |sni| chosen(&chains, &tls(&[], sni, &["http/1.1"]));
    assert_eq!(name("a.test").unwrap(), "exact");
    assert_eq!(name("A.test").unwrap(), "exact");
    assert_eq!(name("b.test").unwrap(), "wild");
    assert_eq!(name("test").unwrap(), "rest");
    assert_eq!(chosen(&chains, &plain()).unwrap(), "rest");
    assert_eq!(name("b.long.test").unwrap_err(), Refusal::NoChain { listener: "0.0.0.0:80".to_owned() });
}

#[test]
fn chains_are_matched_by_destination() {
    let chains = [
        ("{destination_port: 80, prefix_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}", "wide"),
        ("{destination_port: 80, prefix_ranges: [{address_prefix: 10.0.0.0, prefix_len: 24}]}", "narrow"),
        ("{destination_port: 81}", "other"),
    ];
    assert_eq!(chosen(&chains, &plain()).unwrap(), "narrow");
    assert!(chosen(&chains[2..], &plain()).is_err());
}

#[test]
fn http_is_detected_with_the_http_inspector() {
    let inspects = r#"listener_filters: [{name: http, typed_config: {"@type": TYPE.filters.listener.http_inspector.v3.HttpInspector}}],"#;
    let chains = [tcp_chain("{application_protocols: [http/1.1, h2c]}", "http"), tcp_chain("{}", "bytes")];
    let proxy = with(&[listener("10.0.0.1", 80, inspects, &chains)], &["http", "bytes"]);
    let cluster = |request: &Request| forwarded(proxy.outbound("10.0.0.1", 80, request, &plain())).cluster;
    assert_eq!(cluster(&get("/")), "http");
    assert_eq!(cluster(&Request::bytes()), "bytes");
}

#[test]
fn unsupported_features_are_reported() {
    let blind = with(&[listener("10.0.0.1", 80, "", &[tcp_chain("{server_names: [a]}", "a")])], &["a"]);
    unsupported(blind.outbound("10.0.0.1", 80, &get("/"), &plain()), "without the TLS inspector");
    unsupported(chosen_sent("{source_ports: [1]}"), "where a connection comes from");
    let direct =
        r#"{filters: [{name: direct, typed_config: {"@type": TYPE.filters.network.direct_response.v3.Config}}]}"#;
    let proxy = with(&[listener("10.0.0.1", 80, "", &[direct.to_owned()])], &["a"]);
    unsupported(proxy.outbound("10.0.0.1", 80, &get("/"), &plain()), "the network filter direct");
}

fn chosen_sent(matched: &str) -> Result<Sent, Refusal> {
    let proxy = with(&[listener("10.0.0.1", 80, "", &[tcp_chain(matched, "a")])], &["a"]);
    proxy.outbound("10.0.0.1", 80, &get("/"), &plain())
}
