//! CA backends of a mesh, as a step applies them.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A backend and its CA. New content of the CA is another one, so that certificates of both can be in use. Stored as text:
/// `name`, or `name@fingerprint`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct AppliedBackend {
    pub name: Arc<str>,
    /// Fingerprint of its certificates. `None` for a CA that the control plane created, which has one content for ever,
    /// and in records of earlier versions.
    pub ca: Option<Arc<str>>,
}

/// Length of a SHA-256 in hex.
const FINGERPRINT: usize = 64;
/// Characters of a fingerprint that tokens and logs have.
const SHORT: usize = 8;

impl From<&str> for AppliedBackend {
    fn from(text: &str) -> Self {
        let is_fingerprint =
            |text: &&str| text.len() == FINGERPRINT && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match text.rsplit_once('@').filter(|(_, ca)| is_fingerprint(ca)) {
            Some((name, ca)) => Self { name: name.into(), ca: Some(ca.into()) },
            None => Self { name: text.into(), ca: None },
        }
    }
}

impl From<String> for AppliedBackend {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<AppliedBackend> for String {
    fn from(AppliedBackend { name, ca }: AppliedBackend) -> Self {
        ca.map_or_else(|| name.to_string(), |ca| format!("{name}@{ca}"))
    }
}

/// With a short fingerprint: `own@0f3a1b2c`.
impl fmt::Display for AppliedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ca } = self;
        match ca {
            Some(ca) => write!(f, "{name}@{}", ca.get(..SHORT).unwrap_or(ca)),
            None => f.write_str(name),
        }
    }
}
