//! Tables and drawings of a graph.

use expect_test::expect;
use kodiak_inspection::calls::{CallGraph, Edge, EdgeReason, Names};

use super::{drawing, table};

fn only(names: &[&str]) -> Names {
    Names::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

fn edge(clients: Names, destinations: Names, policy: &str) -> Edge {
    Edge { clients, destinations, reason: EdgeReason::Allowed { policy: policy.to_owned() } }
}

fn graph() -> CallGraph {
    CallGraph {
        mesh: "default".to_owned(),
        clients: 7,
        destinations: 7,
        edges: vec![
            edge(Names::All, only(&["db"]), "to-db"),
            edge(only(&["a", "b"]), only(&["c", "db"]), "pairs"),
            Edge {
                clients: only(&["a"]),
                destinations: Names::AllExcept(vec!["c".to_owned(), "db".to_owned()]),
                reason: EdgeReason::Open,
            },
            edge(only(&["a", "b", "c", "d", "e", "f"]), only(&["c"]), "many"),
        ],
    }
}

#[test]
fn table_has_one_line_for_each_set() {
    expect![[r#"
        CLIENTS                    DESTINATIONS       REASON
        all                        db                 to-db
        a, b                       c, db              pairs
        a                          all except c, db   open
        a, b, c, d, e and 1 more   c                  many

        Mesh default: 7 clients by service, 7 destinations"#]]
    .assert_eq(&table(&graph()));
    let nothing = CallGraph { edges: Vec::new(), ..graph() };
    assert!(table(&nothing).starts_with("No call is allowed\n"));
}

#[test]
fn several_clients_and_destinations_meet_in_a_junction() {
    expect![[r#"
        digraph "default" {
          rankdir=LR;
          n2 [label="a"];
          n0 [label="all clients"];
          n5 [label="all destinations except c, db"];
          n3 [label="b"];
          n4 [label="c"];
          n6 [label="d"];
          n1 [label="db"];
          n7 [label="e"];
          n8 [label="f"];
          j0 [shape=point];
          n0 -> n1 [label="to-db"];
          n2 -> j0 [dir=none];
          n3 -> j0 [dir=none];
          j0 -> n4 [label="pairs"];
          j0 -> n1 [label="pairs"];
          n2 -> n5 [label="open"];
          n2 -> n4 [label="many"];
          n3 -> n4 [label="many"];
          n4 -> n4 [label="many"];
          n6 -> n4 [label="many"];
          n7 -> n4 [label="many"];
          n8 -> n4 [label="many"];
        }"#]]
    .assert_eq(&drawing::dot(&graph()));
}

#[test]
fn text_in_drawings_is_escaped() {
    let graph = CallGraph {
        mesh: "a\"b".to_owned(),
        clients: 1,
        destinations: 1,
        edges: vec![edge(only(&["a\"]; x[\\"]), only(&["<b>&#`\n"]), "p\"|")],
    };
    expect![[r#"
        digraph "a\"b" {
          rankdir=LR;
          n1 [label="<b>&#` "];
          n0 [label="a\"]; x[\\"];
          n0 -> n1 [label="p\"|"];
        }"#]]
    .assert_eq(&drawing::dot(&graph));
    expect![[r##"
        flowchart LR
          n1["#lt;b#gt;#amp;#35;#96; "]
          n0["a#quot;]; x[\"]
          n0 -->|"p#quot;|"| n1"##]]
    .assert_eq(&drawing::mermaid(&graph));
}
