//! Resolved references of Dataplanes: `kodiak inspect dataplane --type references`.

use expect_test::expect;
use serde_json::Value;

use crate::inspect::Bed;

const BANK: &str = "
type: MeshExternalService
mesh: default
name: bank
spec:
  match: {type: HostnameGenerator, port: 443}
  endpoints: [{address: bank.example, port: 443}]
";

const CLIENT: &str = "
type: Dataplane
mesh: default
name: web-1
networking:
  address: 127.0.0.1
  inbound:
  - {port: 8080, tags: {kuma.io/service: web}}
  transparentProxying:
    redirectPortOutbound: 15001
    redirectPortInbound: 15006
    reachableBackends:
      refs:
      - {kind: MeshExternalService, name: bank}
      - {kind: MeshExternalService, name: bank, port: 80}
      - {kind: MeshService, name: bank}
";

#[test]
fn shows_resolved_references() {
    let bed = Bed::start();
    bed.kodiak.file("bank.yaml", BANK);
    bed.kodiak.file("web.yaml", CLIENT);
    bed.run(&["apply", "-f", "bank.yaml"]).is(0);
    let applied = bed.run(&["apply", "-f", "web.yaml"]).is(0);
    let path = "networking.transparentProxying.reachableBackends.refs[1]";
    let warning = format!("{path}: there is MeshExternalService \"bank\", but with no port 80: use 443");
    assert!(applied.err.contains(&warning), "{}", applied.err);

    let run = |args: &[&str]| bed.run(&[&["inspect", "dataplane", "web-1"], args].concat()).is(0).out;
    expect![[r#"
        PATH                                                       MEANS                                  TROUBLE
        networking.transparentProxying.reachableBackends.refs[0]   kri_extsvc_default_default__bank_443   -
        networking.transparentProxying.reachableBackends.refs[1]   -                                      there is MeshExternalService "bank", but with no port 80: use 443 (Unresolved)
        networking.transparentProxying.reachableBackends.refs[2]   -                                      there is no MeshService "bank" in zone "default", but a MeshExternalService: write kind: MeshExternalService (Unresolved)
    "#]].assert_eq(&run(&["--type", "references"]));
    let found: Value = serde_json::from_str(&run(&["--type", "references", "-o", "json"])).unwrap();
    assert_eq!(found["references"][1]["path"], path);
    assert_eq!(found["references"][1]["trouble"]["reason"], "Unresolved");
    let summary = run(&[]);
    assert!(summary.contains("Of 3 references, 2 mean nothing or make no difference"), "{summary}");
    let summary: Value = serde_json::from_str(&run(&["-o", "json"])).unwrap();
    assert_eq!(summary["references"], found["references"]);

    // Their status makes no difference, and can be written back.
    let again = bed.run(&["apply", "-f", "web.yaml"]).is(0);
    assert!(again.out.contains("unchanged"), "{}", again.out);
    let read = bed.run(&["get", "dataplane", "web-1", "-o", "json"]).is(0).out;
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(read["status"]["references"].as_array().map(Vec::len), Some(2), "{read}");
    bed.kodiak.file("read.json", &read.to_string());
    let back = bed.run(&["apply", "-f", "read.json"]).is(0);
    assert!(!back.err.contains("status"), "{}", back.err);

    let missing = bed.run(&["inspect", "dataplane", "gone", "--type", "references"]).is(1);
    assert!(missing.err.contains("no Dataplane with name \"gone\""), "{}", missing.err);
}
