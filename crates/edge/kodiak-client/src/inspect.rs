//! Inspection of proxies and policies.

use hyper::Method;
use serde_json::Value;

use super::{Client, ClientError, Page, ResourceId, encode};

impl Client {
    /// `view` is appended to the path of the resource, and may have a query.
    pub async fn inspect(&self, id: ResourceId<'_>, view: &str) -> Result<Value, ClientError> {
        self.read(&format!("{}/{view}", id.path())).await
    }

    /// Like [`Client::inspect`], for plain text.
    pub async fn inspect_text(&self, id: ResourceId<'_>, view: &str) -> Result<String, ClientError> {
        let answer = self.send(Method::GET, &format!("{}/{view}", id.path()), None).await?;
        Ok(String::from_utf8_lossy(&answer.success()?).into_owned())
    }

    /// Like [`Client::inspect`], for a paged list.
    pub async fn inspect_page(&self, id: ResourceId<'_>, view: &str) -> Result<Page, ClientError> {
        self.page_at(&format!("{}/{view}", id.path())).await
    }

    /// Dataplanes of a mesh with their insights: those with all of the tags, or only gateways.
    pub async fn dataplane_overviews(
        &self,
        mesh: &str,
        tags: &[(String, String)],
        gateways: bool,
    ) -> Result<Vec<Value>, ClientError> {
        let tags = tags.iter().map(|(key, value)| format!("tag={}", encode(&format!("{key}:{value}"))));
        let query: Vec<String> = gateways.then(|| "gateway=true".to_owned()).into_iter().chain(tags).collect();
        let separator = if query.is_empty() { "" } else { "?" };
        self.list_at(&format!("/meshes/{}/dataplanes/_overview{separator}{}", encode(mesh), query.join("&"))).await
    }

    /// Status of the policies of a mesh, or of those with `part` in their names.
    pub async fn policies(&self, mesh: &str, part: Option<&str>) -> Result<Vec<Value>, ClientError> {
        let query = part.map_or_else(String::new, |part| format!("?name={}", encode(part)));
        self.list_at(&format!("/meshes/{}/_policies{query}", encode(mesh))).await
    }
}
