//! TLS mode of inbounds.

use serde::{Deserialize, Serialize};

/// Connections that an inbound accepts: the steps between plaintext and strict mTLS.
///
/// The serialized names are those of rollouts in the store and in REST answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InboundTls {
    #[default]
    #[serde(rename = "plain")]
    Plaintext,
    #[serde(rename = "both")]
    Permissive,
    #[serde(rename = "mtls")]
    Strict,
}
