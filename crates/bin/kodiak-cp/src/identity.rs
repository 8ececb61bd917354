//! Instance ID of this process, and ID of its cluster.

use kodiak_catalog::Catalog;
use kodiak_crypto::random_bytes;
use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, StoreError, Write};
use serde_json::{Value, json};

pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_owned() } else { name.trim().to_owned() }
}

/// New at each start, so that insights tell connections of this process from those of others.
pub(crate) fn instance_id(hostname: &str) -> anyhow::Result<String> {
    Ok(format!("{hostname}-{}", hex(&random_bytes::<4>()?)))
}

/// Created once per store, and shared by its control planes.
pub(crate) async fn cluster_id(catalog: &Catalog) -> anyhow::Result<String> {
    let key = ResourceKey::global("Config", "kodiak-cluster-id");
    let write = Write::Put {
        key: key.clone(),
        spec: json!({ "config": hex(&random_bytes::<16>()?) }).to_string().into(),
        labels: Labels::new(),
        owner: None,
        expect: Expect::Absent,
    };
    if catalog.store().get(&key).is_none() {
        match catalog.store().commit(write.into()).await {
            Ok(_) | Err(StoreError::Conflict(_)) => (),
            Err(error) => return Err(error.into()),
        }
    }
    let stored = catalog.store().snapshot().world().get(&key).and_then(|record| record.document::<Value>());
    Ok(stored.and_then(|stored| stored["config"].as_str().map(str::to_owned)).unwrap_or_default())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
