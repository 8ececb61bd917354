//! DNS resolution of Dataplane addresses that are host names.
//!
//! Listeners and endpoints of Envoy need IP addresses, so the control plane resolves names, and resolves them again at
//! an interval because records change.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use kodiak_model::{ProxyKey, kinds::dataplane::Dataplane};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Interval between lookups of a name.
const PERIOD: Duration = Duration::from_secs(10);
/// Timeout of a lookup.
const PATIENCE: Duration = Duration::from_secs(5);

type Names = BTreeSet<Arc<str>>;

/// Resolved names that Dataplanes use.
pub(crate) struct Addresses {
    known: BTreeMap<Arc<str>, IpAddr>,
    users: BTreeMap<ProxyKey, Names>,
    wanted: watch::Sender<Names>,
}

/// New address of a name.
pub(crate) struct Found {
    name: Arc<str>,
    address: IpAddr,
}

impl Addresses {
    /// With the task that resolves names, and its results.
    pub(crate) fn new() -> (Self, Lookups, mpsc::UnboundedReceiver<Found>) {
        let (wanted, names) = watch::channel(Names::new());
        let (found, finds) = mpsc::unbounded_channel();
        (Self { known: BTreeMap::new(), users: BTreeMap::new(), wanted }, Lookups { names, found }, finds)
    }

    /// Replaces names by addresses, as far as they are resolved.
    pub(crate) fn fill_in(&mut self, key: &ProxyKey, dataplane: Option<&mut Dataplane>) {
        let mut used = Names::new();
        if let Some(networking) = dataplane.and_then(|dataplane| dataplane.networking.as_mut()) {
            for text in [&mut networking.address, &mut networking.advertised_address] {
                if !text.is_empty() && text.parse::<IpAddr>().is_err() {
                    let name: Arc<str> = text.as_str().into();
                    if let Some(address) = self.known.get(&name) {
                        *text = address.to_string();
                    }
                    used.insert(name);
                }
            }
        }
        let old = if used.is_empty() { self.users.remove(key) } else { self.users.insert(key.clone(), used.clone()) };
        if old.unwrap_or_default() != used {
            let wanted: Names = self.users.values().flatten().cloned().collect();
            self.known.retain(|name, _| wanted.contains(name));
            self.wanted.send_if_modified(|current| {
                let changed = *current != wanted;
                *current = wanted;
                changed
            });
        }
    }

    /// Stores a result, and returns the proxies whose address changed.
    pub(crate) fn take(&mut self, Found { name, address }: Found) -> Vec<ProxyKey> {
        if self.known.insert(name.clone(), address) == Some(address) {
            return Vec::new();
        }
        self.users.iter().filter(|(_, names)| names.contains(&name)).map(|(key, _)| key.clone()).collect()
    }
}

/// Task that resolves names.
pub(crate) struct Lookups {
    names: watch::Receiver<Names>,
    found: mpsc::UnboundedSender<Found>,
}

impl Lookups {
    /// Runs until `drain`. A name keeps its last address when a lookup fails.
    pub(crate) async fn run(mut self, drain: CancellationToken) -> anyhow::Result<()> {
        let mut period = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return Ok(()),
                changed = self.names.changed() => if changed.is_err() {
                    drain.cancelled().await;
                    return Ok(());
                },
                _ = period.tick() => (),
            }
            let names = self.names.borrow_and_update().clone();
            for name in names {
                match look_up(&name).await {
                    Ok(address) => drop(self.found.send(Found { name, address })),
                    Err(error) => {
                        tracing::warn!(
                            name = &*name,
                            error,
                            "failed to resolve the address of a proxy, it is no endpoint until it resolves"
                        );
                    }
                }
            }
        }
    }
}

/// Smallest of the addresses, IPv4 first, so that the choice is stable.
async fn look_up(name: &str) -> Result<IpAddr, String> {
    let looked_up = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, 0)));
    let addresses = looked_up.await.map_err(|_| "lookup timed out".to_owned())?.map_err(|error| error.to_string())?;
    addresses
        .map(|address| address.ip())
        .min_by_key(|ip| (ip.is_ipv6(), *ip))
        .ok_or_else(|| "no addresses found".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataplane(address: &str) -> Dataplane {
        serde_json::from_value(serde_json::json!({ "networking": { "address": address } })).unwrap()
    }

    fn address(dataplane: &Dataplane) -> &str {
        &dataplane.networking.as_ref().unwrap().address
    }

    #[tokio::test]
    async fn name_is_resolved_and_its_proxies_are_updated() {
        let (mut addresses, look_ups, mut finds) = Addresses::new();
        let drain = CancellationToken::new();
        let task = tokio::spawn(look_ups.run(drain.clone()));
        let key = ProxyKey::new("default", "web-1");
        let mut web = dataplane("localhost");
        addresses.fill_in(&key, Some(&mut web));
        assert_eq!(address(&web), "localhost");
        let found = finds.recv().await.unwrap();
        assert_eq!(addresses.take(found), std::slice::from_ref(&key));
        addresses.fill_in(&key, Some(&mut web));
        assert_eq!(address(&web), "127.0.0.1");
        addresses.fill_in(&key, None);
        assert!(addresses.wanted.borrow().is_empty());
        assert!(addresses.known.is_empty());
        drain.cancel();
        task.await.unwrap().unwrap();
    }

    #[test]
    fn ip_addresses_are_unchanged_and_an_equal_result_updates_no_proxy() {
        let (mut addresses, _, _) = Addresses::new();
        let key = ProxyKey::new("default", "web-1");
        let mut web = dataplane("10.0.0.1");
        addresses.fill_in(&key, Some(&mut web));
        assert!(addresses.wanted.borrow().is_empty());
        addresses.fill_in(&key, Some(&mut dataplane("web.example")));
        let found = || Found { name: "web.example".into(), address: IpAddr::from([10, 0, 0, 7]) };
        assert_eq!(addresses.take(found()).len(), 1);
        assert_eq!(addresses.take(found()).len(), 0);
    }
}
