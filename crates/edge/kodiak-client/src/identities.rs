//! Certificates of the proxies of a mesh.

use serde::de::DeserializeOwned;

use super::{Client, ClientError, encode};

impl Client {
    /// `GET /meshes/{mesh}/_identities`, read as `T`.
    pub async fn identities<T: DeserializeOwned>(&self, mesh: &str) -> Result<T, ClientError> {
        self.read(&format!("/meshes/{}/_identities", encode(mesh))).await
    }
}
