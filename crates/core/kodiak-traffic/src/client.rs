//! Identity of a client.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kodiak_model::{labels, tags};
use kodiak_rules::Proxy;
use serde::{Deserialize, Serialize};

/// Prefix of the text form of a workload. Values of `kuma.io/service` contain no slash.
const WORKLOAD: &str = "workload/";
/// Longest text form. Services of a Dataplane are many only by mistake.
const LONGEST: usize = 1024;

/// All proxies with the same `kuma.io/service` values; without any, with the same `kuma.io/workload` label.
///
/// The text form is `web`, `api,web` or `workload/web`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// `None` for a proxy without either.
    pub fn of(proxy: &Proxy) -> Option<Self> {
        let services: BTreeSet<&str> =
            proxy.dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).map(String::as_str).collect();
        let text = if services.is_empty() {
            format!("{WORKLOAD}{}", proxy.labels.get(labels::WORKLOAD)?)
        } else {
            services.into_iter().collect::<Vec<_>>().join(",")
        };
        (text.len() <= LONGEST).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Values of `kuma.io/service`, in order.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let services = if self.workload().is_some() { "" } else { &*self.0 };
        services.split(',').filter(|service| !service.is_empty())
    }

    pub fn workload(&self) -> Option<&str> {
        self.0.strip_prefix(WORKLOAD)
    }
}

impl From<&str> for ClientId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
