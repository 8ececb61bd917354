//! Observed traffic of a mesh.

use serde::de::DeserializeOwned;

use super::{Client, ClientError, encode};

impl Client {
    /// `GET /meshes/{mesh}/_traffic`, read as `T`.
    pub async fn traffic<T: DeserializeOwned>(&self, mesh: &str) -> Result<T, ClientError> {
        self.read(&format!("/meshes/{}/_traffic", encode(mesh))).await
    }
}
