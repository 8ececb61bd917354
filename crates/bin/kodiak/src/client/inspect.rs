//! What a control plane and its proxies say about one proxy.

use hyper::Method;
use serde_json::Value;

use super::{Client, ClientError, Target};

impl Client {
    /// `what` comes after the path of the Dataplane, with its query.
    pub(crate) async fn inspect(&self, target: Target<'_>, what: &str) -> Result<Value, ClientError> {
        self.read(&format!("{}/{what}", target.path())).await
    }

    /// The same, as text.
    pub(crate) async fn inspect_text(&self, target: Target<'_>, what: &str) -> Result<String, ClientError> {
        let answer = self.send(Method::GET, &format!("{}/{what}", target.path()), None).await?;
        Ok(String::from_utf8_lossy(&answer.success()?).into_owned())
    }
}
