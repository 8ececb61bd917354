//! Transactions over few keys and few contents, so that they conflict.

use std::collections::BTreeMap;

use kodiak_model::ResourceKey;
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::record::{Expect, Transaction, Write};

pub(super) fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    vec(vec(write(), 1..5).prop_map(Transaction), 1..40)
}

fn write() -> impl Strategy<Value = Write> {
    let put = (key(), text(), labels(), option::weighted(0.4, key()), expect())
        .prop_map(|(key, spec, labels, owner, expect)| Write::Put { key, spec: spec.into(), labels, owner, expect });
    let put_status = (key(), text(), expect()).prop_map(|(key, status, expect)| Write::PutStatus {
        key,
        status: status.into(),
        expect,
    });
    let delete = (key(), expect()).prop_map(|(key, expect)| Write::Delete { key, expect });
    let require = (key(), expect()).prop_map(|(key, expect)| Write::Require { key, expect });
    let require_status = (key(), expect()).prop_map(|(key, expect)| Write::RequireStatus { key, expect });
    prop_oneof![8 => put, 4 => put_status, 2 => delete, 1 => require, 1 => require_status]
}

fn key() -> impl Strategy<Value = ResourceKey> {
    (select(vec!["Mesh", "MeshService"]), select(vec!["", "default"]), select(vec!["a", "b", "c"]))
        .prop_map(|(kind, mesh, name)| ResourceKey::in_mesh(kind, mesh, name))
}

fn text() -> impl Strategy<Value = &'static str> {
    select(vec!["{}", r#"{"a":1}"#, r#"{"a":2}"#])
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    select(vec![BTreeMap::new(), BTreeMap::from([("app".to_owned(), "demo".to_owned())])])
}

fn expect() -> impl Strategy<Value = Expect> {
    let without = (1..20_u64, select(vec!["Mesh", "MeshService"]))
        .prop_map(|(version, owned)| Expect::VersionWithout { version, owned });
    prop_oneof![
        8 => Just(Expect::Any),
        1 => Just(Expect::Absent),
        2 => (1..20_u64).prop_map(Expect::Version),
        1 => without,
    ]
}
