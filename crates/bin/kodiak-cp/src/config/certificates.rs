//! Settings of the certificates of proxies and their CAs.

use anyhow::Context as _;
use jiff::SignedDuration;
use kodiak_ca::Renewal;
use kodiak_model::GoDuration;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Certificates {
    /// Share of a proxy certificate's lifetime after which it is renewed, in percent.
    pub renew_at_percent: u8,
    /// Time before the expiry of a CA at which warnings start.
    pub ca_warning: GoDuration,
    /// Longest time for which CAs and SPIFFE IDs that are not in use any more stay trusted, for proxies that are not connected
    /// and may come back with a certificate of before. At most until that certificate expires.
    pub keep_old_trust: GoDuration,
}

impl Default for Certificates {
    fn default() -> Self {
        Self {
            renew_at_percent: 50,
            ca_warning: GoDuration::from_secs(30 * 24 * 60 * 60),
            keep_old_trust: GoDuration::from_secs(24 * 60 * 60),
        }
    }
}

impl Certificates {
    pub(crate) fn renewal(&self) -> anyhow::Result<Renewal> {
        let percent = self.renew_at_percent;
        Renewal::at_percent(percent)
            .with_context(|| format!("certificates.renewAtPercent: {percent} must be between 10 and 90"))
    }

    pub(crate) fn ca_warning(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.ca_warning.nanos().max(0))
    }

    pub(crate) fn keep_old_trust(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.keep_old_trust.nanos().max(0))
    }
}
