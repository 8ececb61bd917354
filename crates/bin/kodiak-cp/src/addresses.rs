//! Addresses of proxies that are written as names.
//!
//! Envoy takes addresses only, in listeners and in endpoints, so names are looked up here: at once, and again and
//! again, because what they lead to changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use kodiak_model::{ProxyKey, kinds::dataplane::Dataplane};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How often names are looked up again.
const PERIOD: Duration = Duration::from_secs(10);
/// How long one look-up may take.
const PATIENCE: Duration = Duration::from_secs(5);

type Names = BTreeSet<Arc<str>>;

/// What is known of the names that Dataplanes use.
pub(crate) struct Addresses {
    known: BTreeMap<Arc<str>, IpAddr>,
    users: BTreeMap<ProxyKey, Names>,
    wanted: watch::Sender<Names>,
}

/// A name leads somewhere else now.
pub(crate) struct Found {
    name: Arc<str>,
    address: IpAddr,
}

impl Addresses {
    /// Beside the task that looks them up.
    pub(crate) fn new() -> (Self, LookUps, mpsc::UnboundedReceiver<Found>) {
        let (wanted, names) = watch::channel(Names::new());
        let (found, finds) = mpsc::unbounded_channel();
        (Self { known: BTreeMap::new(), users: BTreeMap::new(), wanted }, LookUps { names, found }, finds)
    }

    /// Puts addresses for names, as far as they are known.
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

    /// The proxies for which an address is different now.
    pub(crate) fn take(&mut self, Found { name, address }: Found) -> Vec<ProxyKey> {
        if self.known.insert(name.clone(), address) == Some(address) {
            return Vec::new();
        }
        self.users.iter().filter(|(_, names)| names.contains(&name)).map(|(key, _)| key.clone()).collect()
    }
}

/// The task that looks names up.
pub(crate) struct LookUps {
    names: watch::Receiver<Names>,
    found: mpsc::UnboundedSender<Found>,
}

impl LookUps {
    /// Runs until `drain`. A name that leads nowhere keeps the address that it had.
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
                        tracing::warn!(name = &*name, error, "Cannot find the address of a proxy; it is not called.");
                    }
                }
            }
        }
    }
}

/// The smallest of its addresses, IPv4 first, so that it is the same one each time.
async fn look_up(name: &str) -> Result<IpAddr, String> {
    let looked_up = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, 0)));
    let addresses = looked_up.await.map_err(|_| "it takes too long".to_owned())?.map_err(|error| error.to_string())?;
    addresses.map(|address| address.ip()).min_by_key(|ip| (ip.is_ipv6(), *ip)).ok_or_else(|| "it has none".to_owned())
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
    async fn a_name_is_looked_up_and_its_users_are_told() {
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
    fn addresses_are_left_alone_and_the_same_answer_is_no_news() {
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
