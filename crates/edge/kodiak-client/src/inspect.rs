//! What a control plane and its proxies say about one proxy, and about policies.

use hyper::Method;
use serde_json::Value;

use super::{Client, ClientError, Page, Target, encode};

impl Client {
    /// `what` comes after the path of the resource, with its query.
    pub async fn inspect(&self, target: Target<'_>, what: &str) -> Result<Value, ClientError> {
        self.read(&format!("{}/{what}", target.path())).await
    }

    /// The same, as text.
    pub async fn inspect_text(&self, target: Target<'_>, what: &str) -> Result<String, ClientError> {
        let answer = self.send(Method::GET, &format!("{}/{what}", target.path()), None).await?;
        Ok(String::from_utf8_lossy(&answer.success()?).into_owned())
    }
    /// A page of names that belong to the resource.
    pub async fn inspect_page(&self, target: Target<'_>, what: &str) -> Result<Page, ClientError> {
        self.page_at(&format!("{}/{what}", target.path())).await
    }

    /// How the policies of a mesh stand; of those with `part` in their names.
    pub async fn policies(&self, mesh: &str, part: Option<&str>) -> Result<Vec<Value>, ClientError> {
        let query = part.map_or_else(String::new, |part| format!("?name={}", encode(part)));
        self.list_at(&format!("/meshes/{}/_policies{query}", encode(mesh))).await
    }
}
