//! Reads from snapshots.

use std::collections::BTreeMap;

use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Transaction, Write};

use crate::bed::*;

fn put_key(kind: &str, mesh: &str, name: &str) -> Write {
    let key = ResourceKey::in_mesh(kind, mesh, name);
    Write::Put { key, spec: "{}".into(), labels: BTreeMap::new(), owner: None, expect: Expect::Any }
}

pub(crate) async fn lists_are_ordered(bed: Bed) {
    let store = bed.open().await;
    let keys = [
        ("Mesh", "", "default"),
        ("Dataplane", "two", "a"),
        ("Dataplane", "one", "b"),
        ("DataplaneInsight", "one", "a"),
        ("Dataplane", "one", "a"),
        ("Mesh", "", "another"),
        ("Dataplane", "on", "e"),
    ];
    store.commit(Transaction(keys.map(|(kind, mesh, name)| put_key(kind, mesh, name)).into())).await.unwrap();
    let snapshot = store.snapshot();
    let show =
        |records: Vec<&kodiak_store::Record>| records.iter().map(|record| record.key.to_string()).collect::<Vec<_>>();

    assert_eq!(
        show(snapshot.list("Dataplane").collect()),
        ["Dataplane/on/e", "Dataplane/one/a", "Dataplane/one/b", "Dataplane/two/a"]
    );
    assert_eq!(show(snapshot.list_in("Dataplane", "one").collect()), ["Dataplane/one/a", "Dataplane/one/b"]);
    assert_eq!(show(snapshot.list("Mesh").collect()), ["Mesh/another", "Mesh/default"]);
    assert_eq!(snapshot.list("Data").count() + snapshot.list_in("Mesh", "one").count(), 0);
    assert_eq!(snapshot.iter().count(), 7);
}

pub(crate) async fn counts_are_maintained(bed: Bed) {
    let store = bed.open().await;
    write(&store, put_key("Mesh", "", "default")).await;
    for name in ["a", "b", "c"] {
        write(&store, put(name, "{}")).await;
    }
    write(&store, put_owned("d", "a")).await;
    write(&store, put("b", r#"{"n":1}"#)).await;
    let show = || store.snapshot().counts().into_iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>();

    assert_eq!(show(), ["Mesh 1", "MeshService 4"]);
    assert_eq!(store.snapshot().owned_by(&key("a")).map(|record| &*record.key.name).collect::<Vec<_>>(), ["d"]);
    write(&store, delete("a")).await;
    assert_eq!((show(), store.snapshot().len()), (vec!["Mesh 1".into(), "MeshService 2".into()], 3));
    write(&store, delete("b")).await;
    write(&store, delete("c")).await;
    assert_eq!(show(), ["Mesh 1"]);
}

pub(crate) async fn snapshots_are_immutable(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", r#"{"n":1}"#)).await;
    let snapshot = store.snapshot();
    write(&store, put("a", r#"{"n":2}"#)).await;
    write(&store, put("b", "{}")).await;
    assert_eq!((snapshot.revision(), snapshot.len()), (1, 1));
    assert_eq!(&*snapshot.get(&key("a")).unwrap().spec, r#"{"n":1}"#);
    assert_eq!((store.snapshot().revision(), store.snapshot().len()), (3, 2));
}
