//! `kodiak render`: equal to the configuration of the control plane.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Write};

use crate::Kodiak;
use crate::inspect::Bed;

const FILES: &str = "\
type: Mesh
name: default
mtls:
  enabledBackend: ca
  backends:
  - {name: ca, type: builtin}
---
type: Dataplane
mesh: default
name: backend-1
networking:
  address: 10.0.0.1
  inbound:
  - port: 8080
    tags: {kuma.io/service: backend, kuma.io/protocol: http}
---
type: Dataplane
mesh: default
name: web-1
networking:
  address: 10.0.0.2
  inbound:
  - port: 8080
    tags: {kuma.io/service: web}
  transparentProxying: {redirectPortInbound: 15006, redirectPortOutbound: 15001}
---
type: MeshTrafficPermission
mesh: default
name: all
spec:
  targetRef: {kind: Mesh}
  from:
  - targetRef: {kind: Mesh}
    default: {action: Allow}
";

#[test]
fn renders_the_configuration_of_the_control_plane() {
    let bed = Bed::start();
    // Virtual addresses are assigned in the order of services, so there is one service.
    let (first, second) = FILES.split_at(FILES.find("type: Dataplane\nmesh: default\nname: web-1").unwrap());
    bed.kodiak.file("first.yaml", first);
    bed.kodiak.file("second.yaml", second);
    let rendered = bed.kodiak.run(&["render", "-f", "first.yaml", "-f", "second.yaml", "--proxy", "web-1"]).is(0);
    for part in ["xds:\n", "outbound:240.0.0.0:80", "inbound:10.0.0.2:8080", "[redacted]", "envoy.filters.network.rbac"]
    {
        assert!(rendered.out.contains(part), "{part}: {}", rendered.out);
    }
    // The files do not have the default policies of a mesh.
    for (kind, name) in [
        ("meshtimeout", "mesh-timeout-all-default"),
        ("meshtimeout", "mesh-gateways-timeout-all-default"),
        ("meshretry", "mesh-retry-all-default"),
        ("meshcircuitbreaker", "mesh-circuit-breaker-all-default"),
    ] {
        bed.run(&["delete", kind, name]).is(0);
    }
    bed.run(&["apply", "-f", "first.yaml"]).is(0);
    bed.run(&["apply", "-f", "second.yaml"]).is(0);
    let write = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "default", "web-1"),
        spec: "{}".into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::in_mesh("Dataplane", "default", "web-1")),
        expect: Expect::Absent,
    };
    bed.runtime.block_on(bed.control_plane.catalog.store().commit(write.into())).unwrap();
    // The control plane needs time for virtual addresses and the mTLS rollout.
    bed.wait_for("both say the same", || {
        let inspected = bed.run(&["inspect", "dataplane", "web-1", "--type", "config"]).is(0).out;
        without_certificates(&inspected) == without_certificates(&rendered.out)
    });
}

/// The control plane has the certificates of CAs, and files do not.
fn without_certificates(config: &str) -> Vec<&str> {
    config.lines().filter(|line| !line.trim_start().starts_with("inlineBytes:")).collect()
}

#[test]
fn renders_for_a_transparent_proxy() {
    let kodiak = Kodiak::new();
    kodiak.file("mesh.yaml", FILES);
    let render = |more: &[&str]| {
        kodiak.run(&[&["render", "-f", "mesh.yaml", "--proxy", "backend-1", "-o", "json"], more].concat()).is(0).out
    };
    assert!(!render(&[]).contains("outbound:240.0.0.0:80"));
    assert!(render(&["--transparent-proxy"]).contains("outbound:240.0.0.0:80"));
}

#[test]
fn labels_and_mode_of_reachability_trim_destinations() {
    let kodiak = Kodiak::new();
    let (resources, _) = FILES.rsplit_once("---\n").unwrap();
    let labelled = |mode: &str| {
        let label = format!("type: Mesh\nname: default\nlabels: {{kodiak.io/reachability: '{mode}'}}\n");
        resources.replacen("type: Mesh\nname: default\n", &label, 1)
    };
    for (n, (text, setting, is_trimmed)) in [
        (resources.to_owned(), "off", false),
        (resources.to_owned(), "on", true),
        (labelled("on"), "off", true),
        (labelled("off"), "on", false),
    ]
    .into_iter()
    .enumerate()
    {
        let file = format!("mesh-{n}.yaml");
        kodiak.file(&file, &text);
        let rendered = kodiak.run(&["render", "-f", &file, "--proxy", "web-1", "--reachability", setting]).is(0).out;
        assert_eq!(!rendered.contains("outbound:240.0.0.0:80"), is_trimmed, "{n}");
    }
}

#[test]
fn mesh_identity_of_the_files_issues_certificates() {
    let kodiak = Kodiak::new();
    let mtls = "mtls:\n  enabledBackend: ca\n  backends:\n  - {name: ca, type: builtin}\n";
    let identity = "---\ntype: MeshIdentity\nmesh: default\nname: identity\nspec:\n  selector: {dataplane: {matchLabels: {}}}\n  \
        spiffeID: {trustDomain: '{{ .Mesh }}.{{ .Zone }}', path: /all}\n  provider: {type: Bundled, bundled: \
        {insecureAllowSelfSigned: true, autogenerate: {enabled: true}}}\n";
    kodiak.file("mesh.yaml", &(FILES.replace(mtls, "meshServices: {mode: Exclusive}\n") + identity));
    let render = ["render", "-f", "mesh.yaml", "--proxy", "web-1", "--zone", "east"];
    let rendered = kodiak.run(&render).is(0).out;
    assert!(rendered.contains("prefix: spiffe://default.east/"), "{rendered}");
}

#[test]
fn reports_files_that_cannot_be_rendered() {
    let kodiak = Kodiak::new();
    kodiak.file("mesh.yaml", FILES);
    let nobody = kodiak.run(&["render", "-f", "mesh.yaml", "--proxy", "nobody"]).is(1);
    assert!(nobody.err.contains("Dataplane \"nobody\" not found in mesh \"default\""), "{}", nobody.err);
    kodiak.file("wrong.yaml", &FILES.replace("10.0.0.2", "''"));
    let wrong = kodiak.run(&["render", "-f", "wrong.yaml", "--proxy", "web-1"]).is(1);
    assert!(wrong.out.is_empty() && wrong.err.contains("networking.address"), "{wrong:?}");
    kodiak.run(&["render", "--proxy", "web-1"]).is(2);
    let no_mesh = FILES.split_once("---\n").unwrap().1;
    kodiak.file("no-mesh.yaml", no_mesh);
    let without = kodiak.run(&["render", "-f", "no-mesh.yaml", "--proxy", "web-1"]).is(0);
    assert!(without.err.contains("Mesh \"default\" is not in the files"), "{}", without.err);
}
