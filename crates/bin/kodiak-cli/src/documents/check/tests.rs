//! Tests of findings and their locations.

use expect_test::{Expect, expect};

use super::*;

fn file(text: &str) -> Vec<SourceFile> {
    vec![SourceFile { name: "a.yaml".to_owned(), text: text.to_owned() }]
}

fn resources(text: &str) -> Vec<FileResource> {
    let Checkup { resources, findings } = super::check(&file(text), &Names { mesh: "demo" }, &Place::Global);
    assert_eq!(findings, []);
    resources
}

#[track_caller]
fn check(text: &str, expected: &Expect) {
    let show = |finding: &Finding| {
        let Finding { file: _, spot, subject, path, message, severity: _ } = finding;
        let exact = if spot.exact { "" } else { " (near)" };
        format!("{}:{}{exact} {subject} [{path}] {message}\n", spot.mark.line, spot.mark.column)
    };
    let found = super::check(&file(text), &Names { mesh: "demo" }, &Place::Global);
    expected.assert_eq(&found.findings.iter().map(show).collect::<String>());
}

const TIMEOUT: &str = "type: MeshTimeout\nname: slow\nspec:\n  to:\n  - targetRef: { kind: Mesh }\n    default: { connectionTimeout: 5s }\n";

#[test]
fn finds_every_problem_of_every_document() {
    check(
        "type: MeshTimeout\nname: Bad\nspec:\n  to:\n  - targetRef: { kind: Nothing }\n    default: { idleTimeout: -1s }\n---\ntype: MeshTimeout\nname: b\n",
        &expect![[r#"
            5:24 MeshTimeout "Bad" [spec.to[0].targetRef.kind] in body should be one of [Mesh MeshSubset MeshGateway MeshService MeshExternalService MeshMultiZoneService MeshServiceSubset MeshHTTPRoute Dataplane]
            2:7 MeshTimeout "Bad" [name] invalid characters. A lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
            8:1 MeshTimeout "b" [] spec in body is required
        "#]],
    );
}

#[test]
fn suggests_similar_kinds_for_unknown_ones() {
    check(
        "type: MeshTimout\nname: a\n---\ntype: meshtimeout\nname: b\n---\nname: c\n---\ntype: Pod\nname: d\n---\nitems: []\ntotal: 0\n",
        &expect![[r#"
            1:7 MeshTimout "a" [type] there is no kind "MeshTimout"; did you mean MeshTimeout?
            4:7 meshtimeout "b" [type] there is no kind "meshtimeout"; did you mean MeshTimeout?
            7:1 (near) document 3 [type] the kind is missing; write for example `type: MeshTimeout`
            9:7 Pod "d" [type] there is no kind "Pod"; `kodiak get kinds` lists them
            12:1 (near) document 5 [type] this is a list of resources; write each as a document of its own, as `kodiak get … -o yaml` does
        "#]],
    );
}

#[test]
fn rejects_documents_that_are_no_resources() {
    check(
        "just text\n---\n- a\n---\napiVersion: kuma.io/v1alpha1\nkind: Mesh\nmetadata: {}\n---\ntype: 5\n",
        &expect![[r#"
            1:1 document 1 [] a resource must be an object with type, name and its fields
            3:1 document 2 [] a resource must be an object with type, name and its fields
            5:13 document 3 [apiVersion] this is the Kubernetes form; write type, mesh, name and labels at the top instead of apiVersion, kind and metadata
            9:7 document 4 [type] json: cannot unmarshal number into Go struct field ResourceMeta.type of type string
        "#]],
    );
}

#[test]
fn invalid_yaml_is_one_finding() {
    check(
        "a: 1\na: 2\n",
        &expect![[r#"
        2:1 cannot be read as YAML [] "a" is written twice
    "#]],
    );
}

#[test]
fn reports_duplicates_with_the_first_occurrence() {
    check(
        &format!("{TIMEOUT}---\n{TIMEOUT}"),
        &expect![[r#"
        9:7 MeshTimeout "slow" [name] this resource is written twice; the first is at a.yaml:1
    "#]],
    );
}

#[test]
fn sets_the_mesh_of_mesh_scoped_resources() {
    let all = resources(&format!(
        "{TIMEOUT}---\n{}---\ntype: Zone\nname: east\nmesh: x\n",
        TIMEOUT.replace("name", "mesh: other\nname")
    ));
    let meshes: Vec<_> = all.iter().map(|one| (one.checked.mesh.as_str(), one.draft.mesh.as_deref())).collect();
    assert_eq!(meshes, [("demo", Some("demo")), ("other", Some("other")), ("", None)]);
    assert_eq!(all[2].checked.warnings, ["Zone has global scope; the field mesh is ignored"]);
}

#[test]
fn sends_the_document_as_written() {
    let all = resources(
        "type: MeshTimeout\nname: a\nlabels: { team: x }\ncreationTime: 2020-01-01T00:00:00Z\nkri: kri_mt____a_\nspec:\n  to:\n  - targetRef: { kind: Mesh }\n    default: { connectionTimeout: 60s, odd: 1 }\nstatus: { a: 1 }\n---\ntype: Zone\nname: east\nenabled: true\n",
    );
    let body = |n: usize| String::from_utf8(all[n].body()).unwrap();
    assert_eq!(
        body(0),
        r#"{"type":"MeshTimeout","mesh":"demo","name":"a","labels":{"team":"x"},"spec":{"to":[{"targetRef":{"kind":"Mesh"},"default":{"connectionTimeout":"60s","odd":1}}]}}"#
    );
    assert_eq!(body(1), r#"{"type":"Zone","name":"east","enabled":true}"#);
    assert_eq!(all[0].checked.warnings, ["unknown field spec.to[0].default.odd is ignored"]);
}

#[test]
fn reads_json() {
    let all = resources("{\n\t\"type\": \"Zone\",\n\t\"name\": \"east\"\n}\n");
    assert_eq!(all[0].checked.name, "east");
}

#[test]
fn locates_findings_of_the_server() {
    let files = file(&format!("type: Zone\nname: z\n---\n{TIMEOUT}"));
    let all = super::check(&files, &Names { mesh: "demo" }, &Place::Global).resources;
    let spot = crate::documents::Locator::new(&files).spot(all[1].origin, "spec.to[0].default.connectionTimeout");
    assert_eq!((spot.mark.line, spot.mark.column, spot.exact), (9, 35, true));
    assert_eq!(all[1].origin.show(&files), "a.yaml:4");
}

#[test]
fn identifies_invalid_resources_for_deletion() {
    let found = identify(&file("type: MeshTimeout\nname: a\n"), &Names { mesh: "demo" }).ok().unwrap();
    assert_eq!((found[0].kind.name, found[0].mesh(), found[0].draft.name.as_str()), ("MeshTimeout", "demo", "a"));
    assert!(identify(&file("type: MeshTimeout\n"), &Names { mesh: "demo" }).is_err());
}
