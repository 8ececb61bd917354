//! Permissions and certificates that a proxy acknowledged, as its DataplaneInsight shows them. All control planes read them
//! there, so they wait for the same proxies, also after a restart.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use kodiak_identity::disconnected;
use kodiak_model::kinds::dataplane_insight::DataplaneInsight;

/// Version of the text. Tokens with another one are ignored: their fingerprints are others.
const FORMAT: &str = "1";

/// Versions that a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionsToken {
    /// Revision of the store, at most, since which the proxy is to have it. All control planes know it.
    pub(crate) number: u64,
    /// Fingerprint of what its inbounds admit.
    pub(crate) inbounds: u64,
    /// Fingerprint of the certificates that it may present.
    pub(crate) certificates: u64,
}

/// State of a proxy in its DataplaneInsight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcknowledgedState {
    /// Whether it is connected to a control plane.
    pub online: bool,
    /// Time at which it lost its last connection.
    pub left: Option<Timestamp>,
    /// Whether it ever acknowledged a configuration.
    pub has_run: bool,
    /// `None` if it was never sent one, or if another format was stored.
    pub token: Option<PermissionsToken>,
}

impl AcknowledgedState {
    pub fn of(insight: &DataplaneInsight) -> Self {
        let mtls = insight.mtls.as_ref();
        let token = mtls.and_then(|mtls| mtls.acknowledged_permissions.parse().ok());
        let has_run =
            mtls.is_some_and(|mtls| !mtls.acknowledged.is_empty() || !mtls.acknowledged_permissions.is_empty());
        Self { online: insight.is_online(), left: disconnected(insight), has_run, token }
    }
}

impl fmt::Display for PermissionsToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, inbounds, certificates } = self;
        write!(f, "{FORMAT}-{number}-{inbounds:x}-{certificates:x}")
    }
}

impl FromStr for PermissionsToken {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let mut next = || parts.next().ok_or(());
        if next()? != FORMAT {
            return Err(());
        }
        let number = next()?.parse().map_err(|_| ())?;
        let mut fingerprint = || u64::from_str_radix(next()?, 16).map_err(|_| ());
        let (inbounds, certificates) = (fingerprint()?, fingerprint()?);
        parts.next().is_none().then_some(Self { number, inbounds, certificates }).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn insight_shows_the_connection_and_the_token() {
        let of = |insight: serde_json::Value| AcknowledgedState::of(&serde_json::from_value(insight).unwrap());
        assert_eq!(of(json!({})), AcknowledgedState::default());
        let open = json!({ "id": "1", "connectTime": "2026-01-01T00:00:00Z" });
        let connected = of(json!({ "subscriptions": [open], "mTLS": { "acknowledged": "step" } }));
        assert_eq!(connected, AcknowledgedState { online: true, left: None, has_run: true, token: None });
        let (left, token) = ("2026-01-01T00:00:05Z", PermissionsToken { number: 7, inbounds: 255, certificates: 1 });
        let closed = json!({ "id": "1", "connectTime": "2026-01-01T00:00:00Z", "disconnectTime": left });
        let mtls = json!({ "acknowledged": "step", "acknowledgedPermissions": token.to_string() });
        let disconnected = of(json!({ "subscriptions": [closed], "mTLS": mtls }));
        let left = Some(left.parse().unwrap());
        assert_eq!(disconnected, AcknowledgedState { online: false, left, has_run: true, token: Some(token) });
    }

    #[test]
    fn text_of_a_token_is_read_back_and_another_format_is_not() {
        let token = PermissionsToken { number: 7, inbounds: u64::MAX, certificates: 0 };
        assert_eq!(token.to_string().parse(), Ok(token));
        for other in ["", "1", "2-7-ff-0", "1-7-ff", "1-7-ff-0-0", "1-x-ff-0", "1-7-ff-x"] {
            assert_eq!(other.parse::<PermissionsToken>(), Err(()), "{other}");
        }
    }
}
