//! Effects and rejections of writes.

use std::collections::BTreeMap;

use kodiak_store::{Expect, StoreError, Transaction, Write};

use crate::bed::*;

pub(crate) async fn put_creates_and_replaces(bed: Bed) {
    let store = bed.open().await;
    let labels = BTreeMap::from([("app".to_owned(), "demo".to_owned())]);
    let written = write(&store, put("a", r#"{"n":1}"#)).await;
    let first = written.records[0].clone().unwrap();
    assert_eq!((first.version, first.status_version, first.revision, written.revision), (1, 0, 1, 1));
    assert_eq!((first.created, first.status.clone()), (first.modified, None));

    let change = Write::Put {
        key: key("a"),
        spec: r#"{"n":2}"#.into(),
        labels: labels.clone(),
        owner: None,
        expect: Expect::Any,
    };
    let second = write(&store, change).await.records[0].clone().unwrap();
    assert_eq!((second.version, second.revision, &*second.spec), (2, 2, r#"{"n":2}"#));
    assert_eq!((&*second.labels, second.created), (&labels, first.created));
    assert!(second.modified >= first.modified);
    assert_eq!(store.get(&key("a")), Some(second));
}

pub(crate) async fn versions_are_compared(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", r#"{"n":1}"#)).await;
    write(&store, put_if("a", r#"{"n":2}"#, Expect::Version(1))).await;

    let stale = refuse(&store, put_if("a", r#"{"n":3}"#, Expect::Version(1))).await;
    assert!(matches!(stale, StoreError::Conflict(at) if at == key("a")));
    let gone = refuse(&store, put_if("b", "{}", Expect::Version(1))).await;
    assert!(matches!(gone, StoreError::Conflict(at) if at == key("b")));
    let stale = refuse(&store, Write::Delete { key: key("a"), expect: Expect::Version(1) }).await;
    assert!(matches!(stale, StoreError::Conflict(_)));
    assert_eq!(&*spec(&store, "a"), r#"{"n":2}"#);
    write(&store, Write::Delete { key: key("a"), expect: Expect::Version(2) }).await;
}

pub(crate) async fn expect_absent_conflicts_with_a_record(bed: Bed) {
    let store = bed.open().await;
    write(&store, put_if("a", "{}", Expect::Absent)).await;
    assert!(matches!(refuse(&store, put_if("a", "{}", Expect::Absent)).await, StoreError::Conflict(_)));
}

/// A write that was decided on the deleted record never changes the new one, however alike they are.
pub(crate) async fn recreated_record_is_another_one(bed: Bed) {
    let store = bed.open().await;
    write(&store, put_if("a", "{}", Expect::Absent)).await;
    write(&store, put_status("a", "{}")).await;
    let read = store.snapshot();
    let (expect, expect_status) = (read.expect(&key("a")), read.expect_status(&key("a")));
    write(&store, delete("a")).await;
    write(&store, put_if("a", "{}", Expect::Absent)).await;
    let status = Write::PutStatus { key: key("a"), status: "{}".into(), expect: expect_status };
    assert!(matches!(refuse(&store, status).await, StoreError::Conflict(_)), "it has no status any more");
    write(&store, put_status("a", "{}")).await;
    for stale in [
        put_if("a", r#"{"n":1}"#, expect),
        Write::PutStatus { key: key("a"), status: "[]".into(), expect: expect_status },
        Write::Delete { key: key("a"), expect },
        Write::Require { key: key("a"), expect },
    ] {
        assert!(matches!(refuse(&store, stale).await, StoreError::Conflict(_)));
    }
    let now = store.snapshot();
    write(&store, put_if("a", r#"{"n":1}"#, now.expect(&key("a")))).await;
    write(&store, Write::PutStatus { key: key("a"), status: "[]".into(), expect: now.expect_status(&key("a")) }).await;
}

pub(crate) async fn requirement_refuses_the_whole_transaction(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("read", "{}")).await;
    let read = store.snapshot();
    let decided = |require: &str| {
        let require = Write::Require { key: key(require), expect: read.expect(&key(require)) };
        Transaction(vec![put("decided", "{}"), require])
    };
    let before = store.snapshot().revision();
    store.commit(decided("read")).await.unwrap();
    assert_eq!(store.snapshot().revision(), before + 1, "a requirement is no change");
    write(&store, delete("decided")).await;
    store.commit(decided("absent")).await.unwrap();
    write(&store, delete("decided")).await;

    write(&store, put("read", r#"{"n":1}"#)).await;
    write(&store, put("absent", "{}")).await;
    for changed in ["read", "absent"] {
        let refused = store.commit(decided(changed)).await.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict(conflict) if conflict == key(changed)));
    }
    assert!(store.get(&key("decided")).is_none());
}

pub(crate) async fn owner_is_deleted_only_without_records_of_a_kind(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("owner", "{}")).await;
    let Expect::Version(version) = store.snapshot().expect(&key("owner")) else { panic!("it is there") };
    let delete = |owned| Write::Delete { key: key("owner"), expect: Expect::VersionWithout { version, owned } };
    write(&store, put_owned("child", "owner")).await;
    assert!(matches!(refuse(&store, delete("MeshService")).await, StoreError::Conflict(_)));
    write(&store, delete("Mesh")).await;
    assert!(store.snapshot().is_empty());
}

pub(crate) async fn equal_write_is_no_change(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    write(&store, put_status("a", r#"{"ready":true}"#)).await;
    let before = all(&store);
    let mut watch = store.watch(2).unwrap();

    let put = write(&store, put("a", "{}")).await;
    let status = write(&store, put_status("a", r#"{"ready":true}"#)).await;
    assert_eq!((put.revision, status.revision), (2, 2));
    assert_eq!(put.records[0].as_ref(), before.get(&key("a")));
    assert_eq!(all(&store), before);
    assert!(read_all(&mut watch).is_empty());
}

pub(crate) async fn status_and_spec_are_written_separately(bed: Bed) {
    let store = bed.open().await;
    let before = write(&store, put("a", "{}")).await.records[0].clone().unwrap();
    let after = write(&store, put_status("a", r#"{"ready":true}"#)).await.records[0].clone().unwrap();
    assert_eq!(after.status.as_deref(), Some(r#"{"ready":true}"#));
    assert_eq!((after.version, after.status_version, after.revision), (1, 1, 2));
    assert_eq!((&after.spec, after.modified), (&before.spec, before.modified));

    let after = write(&store, put("a", r#"{"n":1}"#)).await.records[0].clone().unwrap();
    assert_eq!(after.status.as_deref(), Some(r#"{"ready":true}"#), "a put keeps the status");
    assert_eq!((after.version, after.status_version), (2, 1));
    assert!(matches!(refuse(&store, put_status("b", "{}")).await, StoreError::NotFound(at) if at == key("b")));
}

pub(crate) async fn status_versions_are_compared(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    let status = |n: u64, expect| Write::PutStatus { key: key("a"), status: format!(r#"{{"n":{n}}}"#).into(), expect };
    write(&store, status(1, Expect::Absent)).await;
    assert!(matches!(refuse(&store, status(2, Expect::Absent)).await, StoreError::Conflict(_)));
    write(&store, put("a", r#"{"n":1}"#)).await;
    write(&store, status(2, Expect::Version(1))).await;
    assert!(matches!(refuse(&store, status(3, Expect::Version(1))).await, StoreError::Conflict(_)));
}

pub(crate) async fn status_and_spec_do_not_undo_each_other(bed: Bed) {
    const ROUNDS: u64 = 100;
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    let specs = async {
        for n in 1..=ROUNDS {
            write(&store, put_if("a", &format!(r#"{{"n":{n}}}"#), Expect::Version(n))).await;
        }
    };
    let statuses = async {
        for n in 1..=ROUNDS {
            write(&store, put_status("a", &format!(r#"{{"n":{n}}}"#))).await;
        }
    };
    tokio::join!(specs, statuses);
    let record = store.get(&key("a")).unwrap();
    assert_eq!((record.version, record.status_version, record.revision), (ROUNDS + 1, ROUNDS, 2 * ROUNDS + 1));
    assert_eq!((&*record.spec, record.status.as_deref()), (r#"{"n":100}"#, Some(r#"{"n":100}"#)));
}

pub(crate) async fn deletes_cascade(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("root", "{}")).await;
    for (name, owner) in [("child", "root"), ("grandchild", "child"), ("other-child", "root")] {
        write(&store, put_owned(name, owner)).await;
    }
    write(&store, put("stranger", "{}")).await;
    let mut watch = store.watch(5).unwrap();

    let written = write(&store, delete("root")).await;
    assert_eq!((written.revision, written.records), (9, vec![None]));
    assert_eq!(names(&read_all(&mut watch)), ["-grandchild", "-other-child", "-child", "-root"], "owners last");
    assert_eq!(all(&store).len(), 1);
    assert!(matches!(refuse(&store, delete("root")).await, StoreError::NotFound(at) if at == key("root")));
}

pub(crate) async fn owners_must_exist(bed: Bed) {
    let store = bed.open().await;
    let error = refuse(&store, put_owned("child", "nobody")).await;
    assert!(matches!(error, StoreError::OwnerMissing { owner, .. } if owner == key("nobody")));

    // A new owner is a change, and the record no longer depends on the old one.
    let owners = ["one", "two"].map(|name| put(name, "{}"));
    store.commit(Transaction(owners.into())).await.unwrap();
    let first = write(&store, put_owned("child", "one")).await.records[0].as_ref().unwrap().version;
    let moved = write(&store, put_owned("child", "two")).await;
    assert_eq!(moved.records[0].as_ref().unwrap().version, first + 1);
    write(&store, delete("one")).await;
    assert!(store.get(&key("child")).is_some());
    write(&store, delete("two")).await;
    assert!(store.get(&key("child")).is_none());
}

pub(crate) async fn transactions_are_all_or_nothing(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("taken", "{}")).await;
    let before = all(&store);
    let transaction =
        Transaction(vec![put("a", "{}"), put_status("taken", "{}"), delete("taken"), put_status("missing", "{}")]);
    assert!(matches!(store.commit(transaction).await, Err(StoreError::NotFound(at)) if at == key("missing")));
    assert_eq!((all(&store), store.snapshot().revision()), (before, 1));
}

pub(crate) async fn writes_see_those_before_them(bed: Bed) {
    let store = bed.open().await;
    let transaction = Transaction(vec![
        put_if("a", r#"{"n":1}"#, Expect::Absent),
        put_if("a", r#"{"n":2}"#, Expect::Version(1)),
        put_status("a", "{}"),
        put_owned("b", "a"),
        delete("a"),
        put_if("a", r#"{"n":3}"#, Expect::Absent),
    ]);
    let written = store.commit(transaction).await.unwrap();
    let versions: Vec<_> = written.records.iter().map(|record| record.as_ref().map(|record| record.version)).collect();
    // `b` begins at revision 4, and the new `a` at revision 7.
    assert_eq!(versions, [Some(1), Some(2), Some(2), Some(4), None, Some(7)]);
    assert_eq!((written.revision, &*spec(&store, "a"), store.get(&key("b"))), (7, r#"{"n":3}"#, None));
    assert_eq!(bed.open_again(store).await, BTreeMap::from([(key("a"), written.records[5].clone().unwrap())]));
}

pub(crate) async fn rejected_write_fails_only_itself(bed: Bed) {
    let store = bed.open().await;
    let writes = (0..40).map(|n| {
        let write = if n % 2 == 0 { put(&format!("good-{n}"), "{}") } else { put(&format!("b\0d-{n}"), "{}") };
        let store = store.clone();
        tokio::spawn(async move { store.commit(write.into()).await })
    });
    for (n, written) in writes.collect::<Vec<_>>().into_iter().enumerate() {
        let written = written.await.unwrap();
        assert!(if n % 2 == 0 { written.is_ok() } else { matches!(written, Err(StoreError::Invalid { .. })) });
    }
    assert_eq!(store.snapshot().len(), 20);
}

pub(crate) async fn one_of_many_concurrent_writes_wins(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    let racers = (0..20).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            store.commit(put_if("a", &format!(r#"{{"n":{n}}}"#), Expect::Version(1)).into()).await.is_ok()
        })
    });
    let mut winners = 0;
    for racer in racers.collect::<Vec<_>>() {
        winners += usize::from(racer.await.unwrap());
    }
    assert_eq!((winners, store.get(&key("a")).unwrap().version), (1, 2));
}
