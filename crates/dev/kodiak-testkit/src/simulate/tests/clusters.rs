//! Endpoints of clusters.

use super::*;

fn to(cluster: &str, assignments: &[&str]) -> SimulatedProxy {
    let chain = tcp_chain("{}", "service");
    let listener = format!(
        "{{name: all, use_original_dst: true, traffic_direction: OUTBOUND, \
         address: {{socket_address: {{address: 0.0.0.0, port_value: 15001}}}}, filter_chains: [{chain}]}}"
    );
    proxy(&format!("{{listeners: [{listener}], clusters: [{cluster}]}}"), assignments)
}

fn send(proxy: &SimulatedProxy) -> Result<Sent, Refusal> {
    proxy.outbound("10.0.0.1", 80, &Request::bytes(), &plain())
}

const EDS: &str = "{name: service, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}";

fn endpoint(address: &str, more: &str) -> String {
    format!("{{endpoint: {{address: {{socket_address: {{address: {address}, port_value: 80}}}}}}, {more}}}")
}

#[test]
fn priorities_are_ordered_and_draining_endpoints_are_skipped() {
    let assignment = format!(
        "{{cluster_name: service, endpoints: [\
         {{priority: 1, locality: {{zone: west}}, lb_endpoints: [{}]}}, \
         {{locality: {{zone: east}}, load_balancing_weight: 7, lb_endpoints: [{}, {}, {}]}}]}}",
        endpoint("10.1.0.1", ""),
        endpoint("10.1.0.2", "load_balancing_weight: 2"),
        endpoint("10.1.0.3", "health_status: DRAINING"),
        endpoint("10.1.0.4", "health_status: DEGRADED"),
    );
    let found = forwarded(send(&to(EDS, &[&assignment])));
    let seen: Vec<_> =
        found.endpoints.iter().map(|one| (one.address.as_str(), one.zone.as_str(), one.weight)).collect();
    assert_eq!(seen, [("10.1.0.2", "east", 2), ("10.1.0.4", "east", 1), ("10.1.0.1", "west", 1)]);
    assert_eq!(found.endpoints[0].locality_weight, Some(7));
    let chosen: Vec<_> = (0..3).map(|dice| found.endpoint(dice).unwrap().address.as_str()).collect();
    assert_eq!(chosen, ["10.1.0.2", "10.1.0.2", "10.1.0.4"]);
}

#[test]
fn missing_resources_have_their_own_refusal() {
    assert_eq!(send(&to("{name: other}", &[])), Err(Refusal::NoCluster("service".to_owned())));
    assert_eq!(send(&to(EDS, &[])), Err(Refusal::NoEndpoints("service".to_owned())));
    assert_eq!(send(&to("{name: service}", &[])), Err(Refusal::NoEndpoints("service".to_owned())));
}

#[test]
fn endpoints_may_have_another_name_than_their_cluster() {
    let cluster = EDS.replace("{ads: {}}", "{ads: {}}, service_name: other");
    let assignment = format!("{{cluster_name: other, endpoints: [{{lb_endpoints: [{}]}}]}}", endpoint("10.1.0.1", ""));
    assert_eq!(forwarded(send(&to(&cluster, &[&assignment]))).endpoints.len(), 1);
}

#[test]
fn original_destination_is_the_called_address() {
    let found = forwarded(send(&to("{name: service, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED}", &[])));
    assert_eq!((found.endpoints[0].address.as_str(), found.endpoints[0].port), ("10.0.0.1", 80));
}

#[test]
fn transport_socket_is_matched_by_endpoint_metadata() {
    let socket = |sni| {
        format!(
            "{{name: tls, typed_config: {{\"@type\": TYPE.transport_sockets.tls.v3.UpstreamTlsContext, sni: {sni}, \
             common_tls_context: {{alpn_protocols: [kuma]}}}}}}"
        )
    };
    let cluster = format!(
        "{{name: service, type: EDS, transport_socket: {}, \
         transport_socket_matches: [{{name: v1, match: {{version: v1}}, transport_socket: {}}}, \
         {{name: plain, match: {{version: v2}}, transport_socket: {{name: raw, typed_config: \
         {{\"@type\": TYPE.transport_sockets.raw_buffer.v3.RawBuffer}}}}}}]}}",
        socket("rest"),
        socket("first"),
    );
    let of = |version| {
        let metadata = format!("{{filter_metadata: {{envoy.transport_socket_match: {{version: {version}, x: y}}}}}}");
        endpoint("10.1.0.1", &format!("metadata: {metadata}"))
    };
    let endpoints = [of("v1"), of("v2"), of("v3")].join(", ");
    let assignment = format!("{{cluster_name: service, endpoints: [{{lb_endpoints: [{endpoints}]}}]}}");
    let found = forwarded(send(&to(&cluster, &[&assignment])));
    let names: Vec<_> = found.endpoints.iter().map(|one| one.tls.as_ref().map(|tls| tls.sni.as_str())).collect();
    assert_eq!(names, [Some("first"), None, Some("rest")]);
    assert_eq!(found.endpoints[0].tls.as_ref().unwrap().alpn, ["kuma"]);
}

#[test]
fn unsupported_features_are_reported() {
    let custom = "{name: service, cluster_type: {name: custom}}";
    unsupported(send(&to(custom, &[])), "the type of cluster service");
    let named =
        "{name: service, load_assignment: {cluster_name: x, endpoints: [{lb_endpoints: [{endpoint_name: x}]}]}}";
    unsupported(send(&to(named, &[])), "endpoints of service by name");
}
