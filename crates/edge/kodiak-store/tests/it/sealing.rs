//! Encryption at rest.

use std::{collections::BTreeMap, fs};

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, Expect, Seal, Store, StoreConfig, StoreError, Write};
use sqlx::Connection as _;

use crate::bed::*;

const PLAIN: &str = r#"{"data":"c3dvcmRmaXNo"}"#;

fn sealed(key: u8) -> impl FnOnce(&mut StoreConfig) {
    move |config| config.seal = Some(Seal { key: [key; 32], kinds: vec!["Secret".into()] })
}

fn secret_key() -> ResourceKey {
    ResourceKey::in_mesh("Secret", "default", "password")
}

fn secret() -> Write {
    Write::Put { key: secret_key(), spec: PLAIN.into(), labels: BTreeMap::new(), owner: None, expect: Expect::Any }
}

/// The bytes in the back end.
async fn at_rest(bed: &Bed) -> Vec<u8> {
    match &bed.backend {
        Backend::Memory => Vec::new(),
        Backend::File { path } => fs::read(path).unwrap(),
        Backend::Postgres(config) => {
            let url = format!("postgres://{}@{}:{}/{}", config.user, config.host, config.port, config.database);
            let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
            let specs: Vec<Vec<u8>> =
                sqlx::query_scalar("SELECT spec FROM kodiak_record").fetch_all(&mut connection).await.unwrap();
            specs.concat()
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A place with one secret, sealed by key 1. `false` for memory, which stores nothing.
async fn with_a_secret(bed: &Bed) -> bool {
    let store = bed.open_with(sealed(1)).await;
    write(&store, secret()).await;
    write(&store, put("other", r#"{"text":"not a secret"}"#)).await;
    assert_eq!(&*store.get(&secret_key()).unwrap().spec, PLAIN, "in memory it is plain");
    store.close().await;
    bed.keeps()
}

pub(crate) async fn sealed_specs_round_trip(bed: Bed) {
    if with_a_secret(&bed).await {
        let bytes = at_rest(&bed).await;
        assert!(!contains(&bytes, "c3dvcmRmaXNo") && contains(&bytes, "not a secret"));
        let store = bed.open_with(sealed(1)).await;
        assert_eq!(&*store.get(&secret_key()).unwrap().spec, PLAIN);
    }
}

pub(crate) async fn rejects_another_seal_key(bed: Bed) {
    if with_a_secret(&bed).await {
        let mut config = bed.config();
        sealed(2)(&mut config);
        assert!(matches!(Store::open(config).await, Err(StoreError::WrongSeal(at)) if at == secret_key()));
        let store = bed.open_with(sealed(1)).await;
        assert_eq!((store.snapshot().revision(), all(&store).len()), (2, 2), "nothing was changed");
    }
}

pub(crate) async fn rejects_a_missing_seal_key(bed: Bed) {
    if with_a_secret(&bed).await {
        assert!(matches!(Store::open(bed.config()).await, Err(StoreError::Sealed(at)) if at == secret_key()));
    }
}

pub(crate) async fn plain_specs_are_sealed_at_their_next_write(bed: Bed) {
    let store = bed.open().await;
    write(&store, secret()).await;
    store.close().await;
    if !bed.keeps() {
        return;
    }
    drop(store);
    assert!(contains(&at_rest(&bed).await, "c3dvcmRmaXNo"));

    let seal = Seal::load_or_create(&bed.path("seal.key"), vec!["Secret".into()]).unwrap();
    let store = bed.open_with(|config| config.seal = Some(seal.clone())).await;
    assert_eq!(&*store.get(&secret_key()).unwrap().spec, PLAIN);
    write(&store, Write::PutStatus { key: secret_key(), status: "{}".into(), expect: Expect::Any }).await;
    store.close().await;
    drop(store);

    assert!(matches!(Store::open(bed.config()).await, Err(StoreError::Sealed(_))), "now it is sealed");
    let seal = Seal::load_or_create(&bed.path("seal.key"), vec!["Secret".into()]).unwrap();
    let store = bed.open_with(|config| config.seal = Some(seal)).await;
    assert_eq!(&*store.get(&secret_key()).unwrap().spec, PLAIN);
}
