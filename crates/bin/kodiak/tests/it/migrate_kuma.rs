//! `kodiak migrate kuma` with a whole control plane, and a real Envoy.

use std::net::TcpListener;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kodiak_crypto::{CaKeyType, RootCaParams, root_ca};
use kodiak_dp::run::{Options, Proxy, Runner, Token};
use kodiak_testkit::envoy::envoy;
use serde_json::Value;

use crate::inspect::Bed;

const EXAMPLE: &str = include_str!("../../../../../examples/kuma-export.yaml");

/// The example with mTLS as `kumactl export` writes it, with the Secrets of a CA and of a signing key.
struct Export {
    text: String,
    ca: String,
    signing_key: String,
}

fn export(bed: &Bed) -> Export {
    let ca = root_ca(&RootCaParams {
        common_name: "shop",
        expires_after: Duration::from_hours(24),
        key: CaKeyType::P256,
        uri_san: Some("spiffe://shop"),
        now: jiff::Timestamp::now(),
    })
    .unwrap();
    let signing_key = bed.kodiak.run(&["generate", "signing-key", "--format", "pem"]).is(0).out;
    let user_key = bed.kodiak.run(&["generate", "signing-key", "--format", "pem"]).is(0).out;
    let secret = |scope: &str, name: &str, data: &str| {
        format!("---\ntype: {scope}\nname: {name}\ndata: {}\n", BASE64_STANDARD.encode(data))
    };
    let of_mesh = "Secret\nmesh: shop";
    let mtls = "mtls:\n  enabledBackend: ca-1\n  skipValidation: true\n  backends:\n  - name: ca-1\n    type: provided\n    conf:\n      \
                cert: {secret: shop.ca-builtin-cert-ca-1}\n      key: {secret: shop.ca-builtin-key-ca-1}\n";
    let text = [
        EXAMPLE.replace("skipCreatingInitialPolicies: ['*']\n", &format!("skipCreatingInitialPolicies: ['*']\n{mtls}")),
        secret(of_mesh, "shop.ca-builtin-cert-ca-1", &ca.cert_pem),
        secret(of_mesh, "shop.ca-builtin-key-ca-1", ca.key_pem.expose()),
        secret(of_mesh, "dataplane-token-signing-key-shop-1", &signing_key),
        secret("GlobalSecret", "zone-token-signing-key-1", &signing_key),
        secret("GlobalSecret", "user-token-signing-key-1", &user_key),
        secret("GlobalSecret", "envoy-admin-ca", "of another control plane"),
        "---\ntype: Dataplane\nmesh: shop\nname: web-1\nnetworking:\n  address: 127.0.0.1\n  admin: {port: ADMIN}\n  inbound:\n  \
         - {port: INBOUND, tags: {kuma.io/service: web, kuma.io/protocol: http}}\n"
            .replace("ADMIN", &free_port().to_string())
            .replace("INBOUND", &free_port().to_string()),
    ];
    Export { text: text.concat(), ca: ca.cert_pem, signing_key }
}

/// Port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn json(bed: &Bed, args: &[&str]) -> Value {
    let ran = bed.run(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

const IMPORT: [&str; 5] = ["migrate", "kuma", "-f", "export.yaml", "--apply"];

#[test]
fn report_needs_no_control_plane_and_groups_resources() {
    let kodiak = crate::Kodiak::new();
    kodiak.file("export.yaml", EXAMPLE);
    let ran = kodiak.run(&["migrate", "kuma", "-f", "export.yaml"]).is(4);
    for part in [
        "Dataplane 1",
        "TrafficRoute shop/route-all-shop -",
        "Timeout shop/timeout-all-shop, Timeout shop/slow-backend MeshTimeout shop/timeout-all-shop",
        "Left out: RateLimit shop/web-to-backend as a MeshRateLimit it is invalid",
        "3 resources come over as they are",
        "1 resource is left out",
    ] {
        let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(part), "{part:?} is not in:\n{}", ran.out);
    }
    assert!(ran.err.contains("Nothing was written"), "{}", ran.err);
    let written = kodiak.run(&["-q", "migrate", "kuma", "-f", "export.yaml", "--write", "-"]).is(4);
    kodiak.file("converted.yaml", &written.out);
    kodiak.run(&["validate", "-f", "converted.yaml"]).is(0);
    kodiak.run(&["migrate", "kuma"]).is(2);
}

#[test]
fn legacy_kinds_are_answered_with_their_replacement() {
    let bed = Bed::start();
    bed.kodiak.file("export.yaml", EXAMPLE);
    let ran = bed.run(&["apply", "-f", "export.yaml"]).is(1);
    for kind in ["TrafficPermission", "TrafficRoute", "Timeout", "TrafficLog", "RateLimit"] {
        assert!(ran.err.contains(&format!("{kind} is a legacy kind of Kuma; use ")), "{kind}: {}", ran.err);
    }
    assert!(ran.err.contains("`kodiak migrate kuma`"), "{}", ran.err);
    let ran = bed.run(&["get", "traffic-routes"]).is(2);
    assert!(ran.err.contains("use MeshHTTPRoute and MeshTCPRoute instead"), "{}", ran.err);
}

#[test]
fn imported_mesh_keeps_its_ca_its_keys_and_its_addresses() {
    let bed = Bed::start();
    let Export { text, ca, signing_key } = export(&bed);
    bed.kodiak.file("export.yaml", &text);
    let report = json(&bed, &IMPORT);
    assert_eq!(report["applied"]["rejected"], serde_json::json!([]), "{report:#}");
    assert_eq!(report["notNeeded"]["GlobalSecret"], 1, "{report:#}");

    let secret = json(&bed, &["get", "secret", "shop.ca-builtin-cert-ca-1", "-m", "shop"]);
    assert_eq!(secret["data"], BASE64_STANDARD.encode(&ca), "the CA is that of the export");
    let mesh = json(&bed, &["get", "mesh", "shop"]);
    assert_eq!(mesh["mtls"]["backends"][0]["type"], "builtin", "{mesh:#}");
    assert_eq!(mesh["skipCreatingInitialPolicies"], serde_json::json!(["*"]));
    let address = |kind: &str, name: &str, at: &str| {
        json(&bed, &["get", kind, name, "-m", "shop"]).pointer(at).cloned().unwrap_or_default()
    };
    assert_eq!(address("meshservice", "backend", "/status/vips"), serde_json::json!([{ "ip": "241.0.0.7" }]));
    assert_eq!(address("meshexternalservice", "bank", "/status/vip/ip"), "242.0.0.9");
    bed.wait_for("the generated MeshService has another address", || {
        // It may not exist yet.
        let web = bed.run(&["get", "meshservice", "web", "-m", "shop", "-o", "json"]).out;
        let web: Value = serde_json::from_str(&web).unwrap_or_default();
        web["status"]["vips"][0]["ip"].as_str().is_some_and(|ip| ip.starts_with("241.") && ip != "241.0.0.7")
    });
    let policies = bed.run(&["get", "policies", "-m", "shop"]).is(0).out;
    for policy in ["timeout-all-shop", "allow-all-shop", "backend-from-web"] {
        let line = policies.lines().find(|line| line.contains(policy)).unwrap_or_else(|| panic!("{policies}"));
        assert!(line.contains("in force") || line.contains("partly"), "{line}");
    }

    // A second run changes nothing.
    let again = json(&bed, &IMPORT);
    let applied = &again["applied"];
    assert_eq!((&applied["created"], &applied["changed"]), (&0.into(), &0.into()), "{again:#}");
    assert_eq!(address("meshservice", "backend", "/status/vips/0/ip"), "241.0.0.7");

    proxy_connects_with_a_token_of_the_old_key(&bed, &signing_key, &ca);
}

fn proxy_connects_with_a_token_of_the_old_key(bed: &Bed, signing_key: &str, ca: &str) {
    let Some(envoy) = envoy() else { return };
    bed.kodiak.file("key.pem", signing_key);
    let token = ["generate", "dataplane-token", "--mesh", "shop", "--name", "web-1", "--valid-for", "1h"];
    let offline = ["--signing-key-path", "key.pem", "--kid", "1"];
    let token = bed.kodiak.run(&[&token[..], &offline].concat()).is(0).out.trim().to_owned();
    let own_ca = std::fs::read(bed.kodiak.home.path().join("control-plane/kodiak.crt")).unwrap();
    let proxy = Proxy { mesh: "shop".to_owned(), name: "web-1".to_owned(), resource: None };
    let mut options = Options::new(format!("https://{}", bed.control_plane.proxies), own_ca, proxy, envoy.to_owned());
    options.token = Some(Token { text: token, file: None });
    options.concurrency = Some(1);
    options.envoy_output = Some(bed.kodiak.home.path().join("envoy.log"));
    options.drain_time = Duration::ZERO;
    let runner: Runner = bed.runtime.block_on(Runner::start(options)).unwrap();
    let in_text = BASE64_STANDARD.encode(ca);
    bed.wait_for("Envoy trusts the CA of the export, and has a certificate", || {
        let dump = bed.run(&["inspect", "dataplane", "web-1", "-m", "shop", "--type", "config-dump"]);
        dump.out.contains(&in_text) && dump.out.contains("certificate_chain")
    });
    let identities = bed.run(&["get", "identities", "-m", "shop"]).is(0).out;
    assert!(identities.contains("ca-1"), "{identities}");
    let ended = bed.runtime.block_on(runner.stop());
    assert!(ended.success(), "{ended}");
}

#[test]
fn address_of_another_service_is_not_taken() {
    let bed = Bed::start();
    bed.kodiak.file("export.yaml", EXAMPLE);
    json(&bed, &IMPORT);
    let other = EXAMPLE.replace("shop", "other");
    bed.kodiak.file("export.yaml", &other);
    let report = json(&bed, &IMPORT);
    let rejected = report["applied"]["rejected"].to_string();
    assert!(rejected.contains("241.0.0.7 belongs to MeshService \\\"backend\\\" in mesh \\\"shop\\\""), "{report:#}");
    bed.wait_for("it gets another address", || {
        let service = json(&bed, &["get", "meshservice", "backend", "-m", "other"]);
        service["status"]["vips"][0]["ip"].as_str().is_some_and(|ip| ip != "241.0.0.7")
    });
}

#[test]
fn ca_of_an_existing_mesh_is_not_replaced() {
    let bed = Bed::start();
    bed.kodiak.file("export.yaml", &export(&bed).text);
    json(&bed, &IMPORT);
    let before = json(&bed, &["get", "secret", "shop.ca-builtin-cert-ca-1", "-m", "shop"]);
    bed.kodiak.file("export.yaml", &export(&bed).text);
    let ran = bed.run(&IMPORT).is(4);
    assert!(ran.out.contains("the mesh has another CA here"), "{}", ran.out);
    assert_eq!(json(&bed, &["get", "secret", "shop.ca-builtin-cert-ca-1", "-m", "shop"]), before);
}

#[test]
fn running_control_plane_is_an_export_too() {
    let (source, target) = (Bed::start(), Bed::start());
    source.kodiak.file("export.yaml", EXAMPLE);
    json(&source, &IMPORT);
    let ran = target.run(&["migrate", "kuma", "--from", source.url(), "--apply"]).is(0);
    assert!(ran.out.contains("0 rejected"), "{}", ran.out);
    let service = json(&target, &["get", "meshexternalservice", "bank", "-m", "shop"]);
    assert_eq!(service["status"]["vip"]["ip"], "242.0.0.9");
}
