//! Labels that generated MeshServices copy from their Dataplanes: the most frequent value of each.
//!
//! Each copied label has a marker label, so that it is removed when no Dataplane has it any more. Labels without a
//! marker belong to users.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use kodiak_identity::{Claim, may_claim};
use kodiak_model::{Labels, dns, kinds::dataplane::Inbound};
use kodiak_rules::Proxy;
use sha2::{Digest as _, Sha256};

use super::offers::{Age, Offer};

/// Prefixes of labels that the control plane sets itself.
const RESERVED: [&str; 2] = ["kuma.io/", "k8s.kuma.io/"];
const COMPANION: &str = "kuma.io/pkey-";

/// Labels that one Dataplane proposes for a service.
pub(super) type Carried = Labels;

/// Selection of the labels to copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Propagation {
    /// All labels that are not reserved, when empty.
    pub allowed: BTreeSet<String>,
}

pub fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|prefix| key.starts_with(prefix))
}

impl Propagation {
    /// Tags with equal values on all inbounds, overridden by labels of the Dataplane.
    pub(super) fn carried(&self, proxy: &Proxy, inbounds: &[&Inbound]) -> Carried {
        let mut tags: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (key, value) in inbounds.iter().flat_map(|inbound| &inbound.tags) {
            tags.entry(key).or_default().insert(value);
        }
        // MeshMultiZoneServices and policies select MeshServices by these labels, so claims of a proxy are not enough.
        let agreed = tags.into_iter().filter(|(_, values)| values.len() == 1);
        let tags = agreed.flat_map(|(key, values)| values.into_iter().map(move |value| (key, value)));
        let tags = tags.filter(|(key, value)| may_claim(proxy, &Claim::Tag((*key).clone(), (*value).clone())));
        let labels = proxy.labels.iter();
        let labels = labels.filter(|(key, value)| may_claim(proxy, &Claim::Label((*key).clone(), (*value).clone())));
        let said = tags.chain(labels).filter(|(key, value)| self.takes(key, value));
        said.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn takes(&self, key: &str, value: &str) -> bool {
        let allowed = self.allowed.is_empty() || self.allowed.contains(key);
        let fit = || dns::qualified_name(key).is_empty() && dns::label_value(value).is_empty();
        allowed && !is_reserved(key) && fit()
    }
}

/// Sets the labels of the current Dataplanes, and removes those that were copied before.
pub(super) fn renew<'a>(labels: &mut Labels, offers: impl Iterator<Item = (&'a Age, &'a Offer)>) {
    let companions: BTreeSet<String> = labels.keys().filter(|key| key.starts_with(COMPANION)).cloned().collect();
    labels.retain(|key, _| !companions.contains(key) && !companions.contains(&companion(key)));
    for (key, value) in most_said(offers) {
        labels.insert(companion(key), String::new());
        labels.insert(key.to_owned(), value.to_owned());
    }
}

/// Most frequent value of each label; ties go to the newest Dataplane, then to the first value in the alphabet.
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
