//! Migrations of a mesh: from kuma.io/service tags to MeshService, and of permissions to SPIFFE IDs.

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Client, ClientError, encode};

#[derive(Deserialize)]
struct Converted<T> {
    items: Vec<T>,
}

impl Client {
    /// `GET /meshes/{mesh}/_migration`, read as `T`.
    pub async fn migration<T: DeserializeOwned>(&self, mesh: &str) -> Result<T, ClientError> {
        self.read(&format!("/meshes/{}/_migration", encode(mesh))).await
    }

    /// All pages of `GET /meshes/{mesh}/_migration/consumers`, each item read as `T`.
    pub async fn consumers<T: DeserializeOwned>(&self, mesh: &str) -> Result<Vec<T>, ClientError> {
        let path = format!("/meshes/{}/_migration/consumers", encode(mesh));
        let items = self.list_at(&path).await?;
        let what = format!("GET {path}");
        items.into_iter().map(|item| self.json(&what, item.to_string().as_bytes())).collect()
    }

    /// Converts references of the policies in `asked`, in their order. Nothing is stored.
    pub async fn convert<T: DeserializeOwned>(&self, mesh: &str, asked: &Value) -> Result<Vec<T>, ClientError> {
        let path = format!("/meshes/{}/_migration/convert", encode(mesh));
        let answer = self.send(Method::POST, &path, Some(Bytes::from(asked.to_string()))).await?;
        let Converted { items } = self.json(&format!("POST {path}"), &answer.success()?)?;
        Ok(items)
    }

    /// Converts MeshTrafficPermissions from tags to SPIFFE IDs. With `apply` in `asked`, all of them are stored at once.
    pub async fn convert_permissions<T: DeserializeOwned>(&self, mesh: &str, asked: &Value) -> Result<T, ClientError> {
        let path = format!("/meshes/{}/_migration/identity/convert", encode(mesh));
        let answer = self.send(Method::POST, &path, Some(Bytes::from(asked.to_string()))).await?;
        self.json(&format!("POST {path}"), &answer.success()?)
    }
}
