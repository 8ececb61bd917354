//! Labels that generated MeshServices take over from their Dataplanes: what most of them say.
//!
//! Each label that was taken over has a companion that says so, by which it is taken away again when no Dataplane
//! carries it any more. Labels without one belong to whoever wrote them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use kodiak_model::{Labels, dns, kinds::dataplane::Inbound};
use kodiak_rules::Proxy;
use sha2::{Digest as _, Sha256};

use super::offers::{Age, Offer};

/// The prefixes of labels that the control plane sets by its own rules.
const RESERVED: [&str; 2] = ["kuma.io/", "k8s.kuma.io/"];
const COMPANION: &str = "kuma.io/pkey-";

/// What one Dataplane says of a service.
pub(super) type Carried = Labels;

/// Which labels are taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Propagation {
    /// All that are not reserved, when there is none.
    pub allowed: BTreeSet<String>,
}

pub fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|prefix| key.starts_with(prefix))
}

impl Propagation {
    /// Tags that the inbounds agree on, and labels of the Dataplane, which have the last word.
    pub(super) fn carried(&self, proxy: &Proxy, inbounds: &[&Inbound]) -> Carried {
        let mut tags: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (key, value) in inbounds.iter().flat_map(|inbound| &inbound.tags) {
            tags.entry(key).or_default().insert(value);
        }
        let agreed = tags.into_iter().filter(|(_, values)| values.len() == 1);
        let tags = agreed.flat_map(|(key, values)| values.into_iter().map(move |value| (key, value)));
        let said = tags.chain(&*proxy.labels).filter(|(key, value)| self.takes(key, value));
        said.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn takes(&self, key: &str, value: &str) -> bool {
        let allowed = self.allowed.is_empty() || self.allowed.contains(key);
        let fit = || dns::qualified_name(key).is_empty() && dns::label_value(value).is_empty();
        allowed && !is_reserved(key) && fit()
    }
}

/// Puts in place what the Dataplanes say now, and takes away what was taken over before.
pub(super) fn renew<'a>(labels: &mut Labels, offers: impl Iterator<Item = (&'a Age, &'a Offer)>) {
    let companions: BTreeSet<String> = labels.keys().filter(|key| key.starts_with(COMPANION)).cloned().collect();
    labels.retain(|key, _| !companions.contains(key) && !companions.contains(&companion(key)));
    for (key, value) in most_said(offers) {
        labels.insert(companion(key), String::new());
        labels.insert(key.to_owned(), value.to_owned());
    }
}

/// For each label the value that most Dataplanes give it; of those as frequent, the one of the newest Dataplane, and
/// then the first in the alphabet.
fn most_said<'a>(offers: impl Iterator<Item = (&'a Age, &'a Offer)>) -> BTreeMap<&'a str, &'a str> {
    let mut values: BTreeMap<&str, BTreeMap<&str, (usize, jiff::Timestamp)>> = BTreeMap::new();
    for ((created, _), offer) in offers {
        for (key, value) in &offer.carried {
            let said = values.entry(key).or_default().entry(value).or_insert((0, *created));
            *said = (said.0 + 1, said.1.max(*created));
        }
    }
    let first_of_best = |said: BTreeMap<&'a str, (usize, jiff::Timestamp)>| {
        // `max_by_key` gives the last of equals.
        said.into_iter().rev().max_by_key(|(_, weight)| *weight).map(|(value, _)| value)
    };
    values.into_iter().filter_map(|(key, said)| Some((key, first_of_best(said)?))).collect()
}

fn companion(key: &str) -> String {
    let digest = Sha256::digest(key);
    digest[..8].iter().fold(COMPANION.to_owned(), |mut name, byte| {
        write!(name, "{byte:02x}").expect("writing to text cannot fail");
        name
    })
}
