//! One resource at a time, and what a control plane says about itself.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use kodiak_model::Kind;
use kodiak_model::Scope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Client, ClientError, encode};

/// A resource by its name.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub kind: &'static Kind,
    /// Not looked at for kinds that live in no mesh.
    pub mesh: &'a str,
    pub name: &'a str,
}

impl Target<'_> {
    pub(super) fn path(self) -> String {
        format!("{}/{}", collection(self.kind, Some(self.mesh)), encode(self.name))
    }
}

/// The path of all resources of a kind: in one mesh, or in all.
pub(super) fn collection(kind: &Kind, mesh: Option<&str>) -> String {
    match (kind.scope, mesh) {
        (Scope::Mesh, Some(mesh)) => format!("/meshes/{}/{}", encode(mesh), kind.path),
        (Scope::Mesh, None) | (Scope::Global, _) => format!("/{}", kind.path),
    }
}

/// What `GET /` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Index {
    pub product: String,
    pub version: String,
    pub hostname: String,
    pub instance_id: String,
    pub cluster_id: String,
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    pub created: bool,
    pub warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PutBody {
    warnings: Vec<String>,
}

impl Client {
    pub async fn index(&self) -> Result<Index, ClientError> {
        self.read("/").await
    }

    pub async fn who_am_i(&self) -> Result<Value, ClientError> {
        self.read("/who-am-i").await
    }

    /// The kinds that the server has, as it describes them.
    pub async fn kinds(&self) -> Result<Value, ClientError> {
        self.read("/_resources").await
    }

    /// `None` when there is no such resource.
    pub async fn get(&self, target: Target<'_>) -> Result<Option<Value>, ClientError> {
        self.get_at(&target.path()).await
    }

    /// The resource together with what was observed of it.
    pub async fn get_overview(&self, target: Target<'_>) -> Result<Option<Value>, ClientError> {
        self.get_at(&format!("{}/_overview", target.path())).await
    }

    async fn get_at(&self, path: &str) -> Result<Option<Value>, ClientError> {
        match self.send(Method::GET, path, None).await?.found()? {
            Some(body) => self.json(&format!("GET {path}"), &body).map(Some),
            None => Ok(None),
        }
    }

    /// Creates a resource, or puts another in its place.
    pub async fn put(&self, target: Target<'_>, body: Bytes) -> Result<Put, ClientError> {
        let path = target.path();
        let answer = self.send(Method::PUT, &path, Some(body)).await?;
        let created = answer.status == StatusCode::CREATED;
        let body = answer.success()?;
        let PutBody { warnings } =
            if body.is_empty() { PutBody::default() } else { self.json(&format!("PUT {path}"), &body)? };
        Ok(Put { created, warnings })
    }

    /// Whether there was something to delete.
    pub async fn delete(&self, target: Target<'_>) -> Result<bool, ClientError> {
        let answer = self.send(Method::DELETE, &target.path(), None).await?;
        Ok(answer.found()?.is_some())
    }

    /// A new token: `path` says of which sort.
    pub async fn token(&self, path: &str, request: &impl Serialize) -> Result<String, ClientError> {
        let body = serde_json::to_vec(request).expect("requests for tokens are made of text and lists");
        let answer = self.send(Method::POST, path, Some(body.into())).await?;
        Ok(String::from_utf8_lossy(&answer.success()?).trim().to_owned())
    }
}
