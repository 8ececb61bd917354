//! Metadata of several sidecar versions, and invalid metadata.

use kodiak_envoy::google::protobuf::{ListValue, Value as Field, value::Kind};
use kodiak_envoy::json::from_json;
use kodiak_model::yaml;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::*;

fn read(text: &str) -> NodeMetadata {
    let document = yaml::parse(text).unwrap().remove(0).value;
    NodeMetadata::read(&from_json(&document).unwrap())
}

const FULL: &str = r#"
version:
  kumaDp: {version: 2.14.3, gitTag: v2.14.3, gitCommit: abc, buildDate: today}
  envoy: {version: 1.40.0, build: abc/1.40.0, kumaDpCompatible: true}
features: [feature-reuse-port, feature-embedded-dns]
workdir: /tmp/dp
metricsCertPath: /tmp/cert
metricsKeyPath: /tmp/key
systemCaPath: /etc/ca
ipv6Enabled: false
spireAgent.socketPath: /tmp/spire
dataplane.resource: "type: Dataplane"
dataplane.admin.port: "9901"
dataplane.admin.address: 127.0.0.2
dataplane.dns.port: "15053"
dataplane.readinessReporter.port: "9902"
dataplane.appProbeProxy.enabled: "true"
dataplane.proxyType: egress
dynamicMetadata: {team: a}
transparentProxy:
  ipFamilyMode: ipv4
  redirect:
    inbound: {enabled: true, port: 15006}
    outbound: {enabled: true, port: 15001}
    dns: {enabled: true, port: 15053}
otelEnvInventory: {OTEL_SERVICE_NAME: x, nested: {n: 1.5, list: [true, null]}}
somethingNew: {a: 1}
"#;

#[test]
fn metadata_round_trips() {
    for metadata in [read(FULL), NodeMetadata::default()] {
        let written = metadata.write();
        assert_eq!(NodeMetadata::read(&written), metadata);
        assert_eq!(NodeMetadata::read(&written).write(), written);
    }
    let full = read(FULL);
    assert_eq!(full.versions.envoy.version.as_deref(), Some("1.40.0"));
    let inventory = Struct::decode(full.open_telemetry.clone().unwrap()).unwrap();
    assert_eq!(Some(&inventory), Reader(Some(&full.write())).within("otelEnvInventory").0);
    assert_eq!(Reader(Some(&inventory)).text("OTEL_SERVICE_NAME").as_deref(), Some("x"));
    assert!(full.probe_proxy && !full.ipv6_enabled);
    assert_eq!(full.proxy_type, ProxyType::Egress);
}

#[test]
fn ports_are_strings_or_numbers() {
    for (port, expected) in [
        ("9901", Some(9901)),
        ("'9901'", Some(9901)),
        ("0", None),
        ("-1", None),
        ("1.5", None),
        ("65536", None),
        ("1e300", None),
        ("' 1'", None),
        ("many", None),
        ("[9901]", None),
        ("null", None),
    ] {
        assert_eq!(read(&format!("dataplane.admin.port: {port}")).admin_port, expected, "{port}");
    }
}

#[test]
fn fields_of_an_unexpected_type_are_missing() {
    let odd =
        read("{version: 1, features: x, workdir: [], ipv6Enabled: maybe, dynamicMetadata: [], transparentProxy: 7}");
    assert_eq!(odd, NodeMetadata::default());
    assert!(odd.ipv6_enabled);
    assert_eq!(read("features: [1, a, null]").features, BTreeSet::from(["a".to_owned()]));
}

#[test]
fn metadata_overrides_the_dataplane() {
    let dataplane =
        TransparentProxying { redirect_port_inbound: 1, redirect_port_outbound: 2, ..TransparentProxying::default() };
    let silent = NodeMetadata::default();
    assert_eq!(silent.redirection(None), None);
    let from_dataplane = Redirection { inbound_port: Some(1), outbound_port: 2, ipv6: true };
    assert_eq!(silent.redirection(Some(&dataplane)), Some(from_dataplane));
    let from_runner = Redirection { inbound_port: Some(15006), outbound_port: 15001, ipv6: false };
    assert_eq!(read(FULL).redirection(Some(&dataplane)), Some(from_runner));
    let off = read("transparentProxy: {redirect: {outbound: {enabled: false, port: 15001}}}");
    assert_eq!(off.redirection(Some(&dataplane)), None);
    assert!(!off.shape(Some(&dataplane)).transparent && silent.shape(Some(&dataplane)).transparent);
}

#[test]
fn dns_is_served_when_it_is_redirected() {
    let full = read(FULL);
    let socket = "/tmp/dp/kuma-mesh-metric-config.sock".to_owned();
    assert_eq!(full.dns_server(None), Some(DnsServer::Runner { socket }));
    let older = NodeMetadata { features: BTreeSet::new(), ..full.clone() };
    assert_eq!(older.dns_server(None), Some(DnsServer::Envoy { port: 15053 }));
    let mut off = full;
    off.transparent_proxy.as_mut().unwrap().dns.enabled = false;
    assert_eq!(off.dns_server(None), None);
    assert_eq!(NodeMetadata { dns_port: Some(15053), ..NodeMetadata::default() }.dns_server(None), None);
}

#[test]
fn admin_interface_is_a_socket_or_an_address() {
    assert_eq!(NodeMetadata::default().admin_endpoint(), None);
    let address = |address: &str| Some(AdminEndpoint::Address { address: address.to_owned(), port: 9901 });
    assert_eq!(read(FULL).admin_endpoint(), address("127.0.0.2"));
    assert_eq!(read("dataplane.admin.port: 9901").admin_endpoint(), address("127.0.0.1"));
    let socket = read("{dataplane.admin.port: 9901, dataplane.admin.socketPath: /tmp/a.sock}");
    assert_eq!(socket.admin_endpoint(), Some(AdminEndpoint::Socket("/tmp/a.sock".to_owned())));
}

/// Keys that are read, at any depth.
const KEYS: &[&str] = &[
    "version",
    "kumaDp",
    "envoy",
    "features",
    "workdir",
    "ipv6Enabled",
    "dataplane.admin.port",
    "dataplane.dns.port",
    "dataplane.appProbeProxy.enabled",
    "dataplane.proxyType",
    "dynamicMetadata",
    "transparentProxy",
    "redirect",
    "inbound",
    "outbound",
    "dns",
    "enabled",
    "port",
    "ipFamilyMode",
    "otelEnvInventory",
];

fn value() -> impl Strategy<Value = Field> {
    let plain = prop_oneof![
        Just(None),
        any::<f64>().prop_map(|number| Some(Kind::NumberValue(number))),
        any::<u16>().prop_map(|port| Some(Kind::NumberValue(port.into()))),
        any::<u32>().prop_map(|port| Some(Kind::StringValue(port.to_string()))),
        ".{0,6}".prop_map(|text| Some(Kind::StringValue(text))),
        any::<bool>().prop_map(|flag| Some(Kind::BoolValue(flag))),
        Just(Some(Kind::NullValue(0))),
    ];
    let leaf = plain.prop_map(|kind| Field { kind });
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|values| Field { kind: Some(Kind::ListValue(ListValue { values })) }),
            fields(inner).prop_map(|fields| Field { kind: Some(Kind::StructValue(fields)) }),
        ]
    })
}

fn fields(value: impl Strategy<Value = Field>) -> impl Strategy<Value = Struct> {
    btree_map(select(KEYS).prop_map(str::to_owned), value, 0..8).prop_map(|fields| Struct { fields })
}

proptest! {
    #[test]
    fn random_metadata_round_trips(metadata in fields(value())) {
        let read = NodeMetadata::read(&metadata);
        assert_eq!(NodeMetadata::read(&read.write()), read);
    }
}
