//! Reads and writes of single resources, and information about the control plane.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use kodiak_model::Kind;
use kodiak_model::Scope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Client, ClientError, encode};

/// Kind, mesh and name of a resource.
#[derive(Debug, Clone, Copy)]
pub struct ResourceId<'a> {
    pub kind: &'static Kind,
    /// Ignored for kinds of global scope.
    pub mesh: &'a str,
    pub name: &'a str,
}

impl ResourceId<'_> {
    pub(super) fn path(self) -> String {
        format!("{}/{}", collection(self.kind, Some(self.mesh)), encode(self.name))
    }
}

/// Path of the list of a kind: in one mesh, or in all.
pub(super) fn collection(kind: &Kind, mesh: Option<&str>) -> String {
    match (kind.scope, mesh) {
        (Scope::Mesh, Some(mesh)) => format!("/meshes/{}/{}", encode(mesh), kind.path),
        (Scope::Mesh, None) | (Scope::Global, _) => format!("/{}", kind.path),
    }
}

/// Product and version of the control plane: `GET /`. Kodiak gives its own in the field `kodiak`, beside those that
/// kumactl accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", from = "IndexBody")]
pub struct ControlPlaneInfo {
    pub product: String,
    pub version: String,
    pub hostname: String,
    pub instance_id: String,
    pub cluster_id: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct IndexBody {
    product: String,
    version: String,
    hostname: String,
    instance_id: String,
    cluster_id: String,
    kodiak: Option<OwnName>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnName {
    product: String,
    version: String,
}

impl From<IndexBody> for ControlPlaneInfo {
    fn from(body: IndexBody) -> Self {
        let IndexBody { product, version, hostname, instance_id, cluster_id, kodiak } = body;
        let OwnName { product, version } = kodiak.unwrap_or(OwnName { product, version });
        Self { product, version, hostname, instance_id, cluster_id }
    }
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutResult {
    pub created: bool,
    pub warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PutBody {
    warnings: Vec<String>,
}

impl Client {
    /// Product and version of the control plane.
    pub async fn info(&self) -> Result<ControlPlaneInfo, ClientError> {
        self.read("/").await
    }

    /// User and groups of the credentials.
    pub async fn who_am_i(&self) -> Result<Value, ClientError> {
        self.read("/who-am-i").await
    }

    /// Kinds of the server: `GET /_resources`.
    pub async fn kinds(&self) -> Result<Value, ClientError> {
        self.read("/_resources").await
    }

    /// `None` if the resource does not exist.
    pub async fn get(&self, id: ResourceId<'_>) -> Result<Option<Value>, ClientError> {
        self.get_at(&id.path()).await
    }

    /// The resource with its insight. `None` if it does not exist.
    pub async fn get_overview(&self, id: ResourceId<'_>) -> Result<Option<Value>, ClientError> {
        self.get_at(&format!("{}/_overview", id.path())).await
    }

    async fn get_at(&self, path: &str) -> Result<Option<Value>, ClientError> {
        match self.send(Method::GET, path, None).await?.found()? {
            Some(body) => self.json(&format!("GET {path}"), &body).map(Some),
            None => Ok(None),
        }
    }

    /// Creates or replaces a resource.
    pub async fn put(&self, id: ResourceId<'_>, body: Bytes) -> Result<PutResult, ClientError> {
        self.put_at(&id.path(), body).await
    }

    async fn put_at(&self, path: &str, body: Bytes) -> Result<PutResult, ClientError> {
        let answer = self.send(Method::PUT, path, Some(body)).await?;
        let created = answer.status == StatusCode::CREATED;
        let body = answer.success()?;
        let PutBody { warnings } =
            if body.is_empty() { PutBody::default() } else { self.json(&format!("PUT {path}"), &body)? };
        Ok(PutResult { created, warnings })
    }

    /// Creates or replaces a service that keeps the virtual address in its status. For administrators.
    pub async fn put_with_address(&self, id: ResourceId<'_>, body: Bytes) -> Result<PutResult, ClientError> {
        self.put_at(&format!("{}?vip=keep", id.path()), body).await
    }

    /// Deletes a resource. `false` if it did not exist.
    pub async fn delete(&self, id: ResourceId<'_>) -> Result<bool, ClientError> {
        let answer = self.send(Method::DELETE, &id.path(), None).await?;
        Ok(answer.found()?.is_some())
    }

    /// Issues a token. `path` selects its type, for example `/tokens/dataplane`.
    pub async fn token(&self, path: &str, request: &impl Serialize) -> Result<String, ClientError> {
        let body = serde_json::to_vec(request).expect("requests for tokens are made of text and lists");
        let answer = self.send(Method::POST, path, Some(body.into())).await?;
        Ok(String::from_utf8_lossy(&answer.success()?).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_name_of_a_control_plane_is_preferred() {
        let info = |text: &str| serde_json::from_str::<ControlPlaneInfo>(text).unwrap();
        let kodiak = info(r#"{"product":"Kuma","version":"2.14.3","kodiak":{"product":"Kodiak","version":"0.1.0"}}"#);
        assert_eq!((kodiak.product.as_str(), kodiak.version.as_str()), ("Kodiak", "0.1.0"));
        let kuma = info(r#"{"product":"Kuma","version":"2.14.3","instanceId":"i-1"}"#);
        assert_eq!(
            (kuma.product.as_str(), kuma.version.as_str(), kuma.instance_id.as_str()),
            ("Kuma", "2.14.3", "i-1")
        );
    }
}
