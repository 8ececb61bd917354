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
        let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
        self.read(&format!("/meshes/{}/{view}{query}", encode(mesh))).await
    }

    /// All pages of `GET /meshes/{mesh}/_reachability`, each item read as `T`.
    pub async fn reachability<T: DeserializeOwned>(
        &self,
        mesh: &str,
        part: Option<&str>,
    ) -> Result<Vec<T>, ClientError> {
        let query = part.map_or_else(String::new, |part| format!("?name={}", encode(part)));
        let path = format!("/meshes/{}/_reachability{query}", encode(mesh));
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
        let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        let path = format!("/meshes/{}/_permissions/check?{}", encode(mesh), pairs.join("&"));
        let answer = self.send(Method::POST, &path, Some(Bytes::from(change.to_string()))).await?;
        self.json(&format!("POST {path}"), &answer.success()?)
    }
}
