//! What would change for the proxies of a mesh.

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use super::{Client, ClientError, encode};

impl Client {
    /// In full: also how each resource of a proxy would change.
    pub async fn diff(&self, mesh: &str, change: &Value, full: bool) -> Result<Value, ClientError> {
        let query = if full { "?full=true" } else { "" };
        let path = format!("/meshes/{}/_diff{query}", encode(mesh));
        let answer = self.send(Method::POST, &path, Some(Bytes::from(change.to_string()))).await?;
        self.json(&format!("POST {path}"), &answer.success()?)
    }
}
