//! Questions about calls: who may call whom, and why.

use bytes::Bytes;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Client, ClientError, encode};

impl Client {
    /// `GET /meshes/{mesh}/{view}` with these query parameters, read as `T`.
    pub async fn calls<T: DeserializeOwned>(
        &self,
        mesh: &str,
        view: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        self.read(&format!("/meshes/{}/{view}{}", encode(mesh), parameters(query))).await
    }

    /// All pages of `GET /meshes/{mesh}/_reachability`, each item read as `T`.
    pub async fn reachability<T: DeserializeOwned>(
        &self,
        mesh: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, ClientError> {
        let path = format!("/meshes/{}/_reachability{}", encode(mesh), parameters(query));
        let items = self.list_at(&path).await?;
        let what = format!("GET {path}");
        items.into_iter().map(|item| self.json(&what, item.to_string().as_bytes())).collect()
    }

    /// `POST /meshes/{mesh}/_permissions/check`, read as `T`. Nothing is stored.
    pub async fn check_permissions<T: DeserializeOwned>(
        &self,
        mesh: &str,
        change: &Value,
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let path = format!("/meshes/{}/_permissions/check{}", encode(mesh), parameters(query));
        let answer = self.send(Method::POST, &path, Some(Bytes::from(change.to_string()))).await?;
        self.json(&format!("POST {path}"), &answer.success()?)
    }
}

/// With the question mark, if there are any.
fn parameters(query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}
