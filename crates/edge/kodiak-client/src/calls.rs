//! Questions about calls: who may call whom, and why.

use serde::de::DeserializeOwned;

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
}
