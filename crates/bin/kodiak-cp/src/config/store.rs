//! Settings of the store.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Masked;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Store {
    /// Back end of the store.
    #[serde(rename = "type")]
    pub store_type: StoreType,
    pub file: FileStore,
    pub postgres: Postgres,
    /// Encrypts secrets at rest, with `sealKey`, or with the key in the file `seal.key` of the working directory.
    pub seal_secrets: bool,
    /// Key that encrypts secrets: 32 bytes in base64. Without it, the file is used, and created if it is missing.
    pub seal_key: Masked,
    /// Lets a mesh be deleted while proxies are attached to it.
    pub unsafe_delete: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            store_type: StoreType::File,
            file: FileStore::default(),
            postgres: Postgres::default(),
            seal_secrets: true,
            seal_key: Masked::default(),
            unsafe_delete: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoreType {
    Memory,
    File,
    Postgres,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct FileStore {
    /// `kodiak.redb` in the working directory when empty.
    pub path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Postgres {
    /// Host name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// User of the database.
    pub user: String,
    /// Password of the user.
    pub password: Masked,
    /// Name of the database.
    pub db_name: String,
    pub tls: PostgresTls,
    /// Interval at which changes of other control planes are polled, in case a notification is lost.
    pub poll_interval_seconds: u32,
    /// Duration of the leader's lease. After it expires, another control plane becomes leader.
    pub lease_seconds: u32,
}

impl Default for Postgres {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 5432,
            user: "kodiak".to_owned(),
            password: Masked::default(),
            db_name: "kodiak".to_owned(),
            tls: PostgresTls::default(),
            poll_interval_seconds: 3,
            lease_seconds: 15,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PostgresTls {
    /// `verify` uses TLS and verifies the server's certificate.
    pub mode: PostgresTlsMode,
    /// File with the CA of the server's certificate; public CAs when empty.
    pub ca_path: PathBuf,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PostgresTlsMode {
    #[default]
    Disable,
    Verify,
}
