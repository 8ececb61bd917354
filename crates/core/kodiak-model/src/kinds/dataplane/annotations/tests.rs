//! Lists of both annotations, and every problem with its line.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AnnotationProblem, REACHABLE_BACKENDS, reachable_backends, reachable_services};
use crate::{CheckCtx, Labels, Problems, Spec as _, kinds::dataplane::Dataplane};

type Found = (usize, String, String);

fn found(problems: &[AnnotationProblem]) -> Vec<Found> {
    problems.iter().map(|one| (one.line, one.path.clone(), one.message.clone())).collect()
}

#[track_caller]
fn refuses_services(text: &str, expected: &[(usize, &str, &str)]) {
    let problems = found(&reachable_services(text).unwrap_err());
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for ((line, path, message), (wanted_line, wanted_path, wanted)) in problems.iter().zip(expected) {
        assert_eq!((line, path.as_str()), (wanted_line, *wanted_path), "{problems:#?}");
        assert!(message.contains(wanted), "{message}");
    }
}

#[track_caller]
fn refuses_backends(text: &str, expected: &[(usize, &str, &str)]) {
    let problems = found(&reachable_backends(text).unwrap_err());
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for ((line, path, message), (wanted_line, wanted_path, wanted)) in problems.iter().zip(expected) {
        assert_eq!((line, path.as_str()), (wanted_line, *wanted_path), "{problems:#?}");
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn services_are_separated_by_commas() {
    let services = |text| reachable_services(text).unwrap();
    assert_eq!(
        services("demo-app_kuma-demo_svc_5000,redis_kuma-demo_svc_6379"),
        ["demo-app_kuma-demo_svc_5000", "redis_kuma-demo_svc_6379"]
    );
    assert_eq!(services(" web ,\n api,\n"), ["web", "api"]);
    assert_eq!(services("web"), ["web"]);
    assert_eq!(services(" \n"), [""; 0]);
}

#[test]
fn services_that_cannot_exist_are_reported_with_their_lines() {
    refuses_services(
        "web,,api,\n  two words,\n- list",
        &[
            (1, "[1]", "no name between two commas"),
            (2, "[3]", r#""two words" is not"#),
            (3, "[4]", r#""- list" is not"#),
        ],
    );
    refuses_services(",", &[(1, "[0]", "no name")]);
    let problem = reachable_services("web,\n é b").unwrap_err().remove(0);
    assert_eq!((problem.line, problem.column), (2, 2));
}

#[test]
fn backends_are_those_of_the_field() {
    let text = "\
refs:
- kind: MeshService
  name: demo-app
  namespace: kuma-demo # if missing, then my namespace
  port: 5000
- kind: MeshService
  labels:
    kuma.io/display-name: xyz
    kuma.io/zone: east
- kind: MeshExternalService
  name: demo-app
- kind: MeshMultiZoneService
  labels: {}
";
    let backends = reachable_backends(text).unwrap();
    let expected = json!({ "refs": [
        { "kind": "MeshService", "name": "demo-app", "namespace": "kuma-demo", "port": 5000 },
        { "kind": "MeshService", "labels": { "kuma.io/display-name": "xyz", "kuma.io/zone": "east" } },
        { "kind": "MeshExternalService", "name": "demo-app" },
        { "kind": "MeshMultiZoneService", "labels": {} },
    ] });
    assert_eq!(serde_json::to_value(backends).unwrap(), expected);
    assert!(reachable_backends("refs: []").unwrap().refs.is_empty());
}

#[test]
fn every_rule_of_a_reference_is_reported_with_its_line() {
    let text = "\
refs:
- kind: Mesh
  name: a
- name: Bad_Name
- kind: MeshService
- kind: MeshService
  namespace: there
- kind: MeshService
  name: a
  port: 70000
- kind: MeshService
  name: a
  labels:
    team: a
- kind: MeshService
  port: 80
  labels:
    team: a
";
    refuses_backends(
        text,
        &[
            (2, "refs[0].kind", "Available values are: "),
            (4, "refs[1].kind", "Available values are: "),
            (4, "refs[1].name", "invalid characters"),
            (5, "refs[2].name", "name or labels are required"),
            (6, "refs[3].name", "name is required, when namespace is defined"),
            (10, "refs[4].port", "port must be in the range [1, 65535]"),
            (13, "refs[5].labels", "labels cannot be defined when name is specified"),
            (16, "refs[6].port", "port cannot be defined together with labels"),
        ],
    );
}

#[test]
fn mistakes_against_the_schema_are_reported_with_their_lines() {
    refuses_backends(
        "refs:\n- kind: MeshService\n  name: a\n  prot: 80\n- kind: MeshService\n  name: [a]\nextra: 1\n",
        &[
            (4, "refs[0].prot", "unknown field; did you mean port?"),
            (6, "refs[1].name", "must be of type string"),
            (7, "extra", "unknown field"),
        ],
    );
    refuses_backends("- kind: MeshService\n  name: a\n", &[(1, "", "must be of type object")]);
    refuses_backends("web,api", &[(1, "", "must be of type object")]);
    refuses_backends(
        "refs:\n- kind: MeshService\n  labels:\n    kuma.io/zone: 1\n",
        &[(4, r#"refs[0].labels["kuma.io/zone"]"#, "must be of type string")],
    );
    refuses_backends("refs:\n- {kind: MeshService, name: a, port: 5000000000}", &[(2, "refs[0].port", "less than")]);
}

#[test]
fn text_that_is_no_single_document_is_reported_with_its_line() {
    refuses_backends("refs:\n- kind: [\n", &[(3, "", "")]);
    refuses_backends("refs: []\nrefs: []\n", &[(2, "", "written twice")]);
    refuses_backends("refs: []\n---\nrefs: []\n", &[(3, "", "second YAML document")]);
    for empty in ["", " \n", "---\n", "# nothing\n", "null"] {
        refuses_backends(empty, &[(1, "", "write `refs: []` for no destination")]);
    }
}

#[test]
fn text_of_a_problem_names_annotation_line_and_path() {
    let problem = reachable_backends("refs:\n- kind: MeshService\n  name: a\n  port: 0\n").unwrap_err().remove(0);
    assert_eq!(
        problem.to_string(),
        format!("{REACHABLE_BACKENDS}: line 4: refs[0].port: port must be in the range [1, 65535]")
    );
}

fn reference() -> impl Strategy<Value = Value> {
    let kind = prop::option::of(prop::sample::select(vec!["MeshService", "MeshExternalService", "Mesh", ""]));
    let text = || prop::option::of(prop::sample::select(vec!["a", "", "B!", "web-1"]));
    let port = prop::option::of(prop::sample::select(vec![0_i64, 80, 65536, 1]));
    let labels = prop::option::of(prop::collection::btree_map("[a-z]{1,3}", "[a-z]{0,3}", 0..3));
    (kind, text(), text(), port, labels).prop_map(|(kind, name, namespace, port, labels)| {
        let mut reference =
            json!({ "kind": kind, "name": name, "namespace": namespace, "port": port, "labels": labels });
        reference.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        reference
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,80}|[-a-z:,\\[\\]{}\"'&*|>#!%\n\t ]{0,80}") {
        for problem in reachable_services(&text).err().into_iter().chain(reachable_backends(&text).err()).flatten() {
            prop_assert!(problem.line >= 1 && problem.column >= 1);
            prop_assert!(problem.line <= text.lines().count() + 1, "{} in {:?}", problem, text);
        }
    }

    #[test]
    fn annotation_and_dataplane_have_the_same_rules(refs in prop::collection::vec(reference(), 0..4)) {
        let document = json!({ "refs": refs });
        let networking = json!({
            "address": "10.0.0.1",
            "inbound": [{ "port": 80, "tags": { "kuma.io/service": "a" } }],
            "transparentProxying": { "reachableBackends": document },
        });
        let dataplane: Dataplane = serde_json::from_value(json!({ "networking": networking })).unwrap();
        let mut problems = Problems::default();
        dataplane.check(&CheckCtx { mesh: "default", name: "a", labels: &Labels::new() }, &mut problems);
        let of_field: Vec<(String, String)> = problems
            .into_vec()
            .into_iter()
            .map(|one| (one.path.replace("networking.transparentProxing.reachableBackends.", ""), one.message))
            .collect();
        let parsed = reachable_backends(&crate::yaml::to_string(&document));
        let mut of_annotation: Vec<(String, String)> =
            parsed.err().into_iter().flatten().map(|one| (one.path, one.message)).collect();
        of_annotation.sort();
        let mut of_field = of_field;
        of_field.sort();
        prop_assert_eq!(of_annotation, of_field);
    }
}
