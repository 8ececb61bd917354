//! Client certificates for MeshExternalServices, whose certificate and key come from two sources.
//!
//! **Invariant:** a certificate and a key that do not belong together are never sent: while one of two Secrets is replaced,
//! the pair that matched last stays in use.

use std::collections::BTreeMap;

use kodiak_crypto::is_mismatch;
use kodiak_engine::ClientPair;
use kodiak_model::{Kri, ResourceKey};
use kodiak_store::Snapshot;

/// The last pair that matched, by service.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<Kri, ClientPair>);

impl Cache {
    pub(crate) fn matching(&mut self, service: &Kri, pair: ClientPair) -> Result<ClientPair, String> {
        if self.0.get(service) == Some(&pair) {
            return Ok(pair);
        }
        if !is_mismatch(pair.0.as_bytes(), pair.1.as_bytes()) {
            self.0.insert(service.clone(), pair.clone());
            return Ok(pair);
        }
        let error = || format!("the client certificate of {service} does not belong to its key; write both");
        self.0.get(service).cloned().ok_or_else(error)
    }

    /// Drops the keys of deleted meshes.
    pub(crate) fn forget_missing(&mut self, snapshot: &Snapshot) {
        self.0.retain(|service, _| snapshot.get(&ResourceKey::global("Mesh", &service.mesh)).is_some());
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kodiak_crypto::{CaKeyType, RootCaParams, TEN_YEARS, root_ca};

    use super::*;

    fn pair() -> ClientPair {
        let (key, now) = (CaKeyType::P256, Timestamp::now());
        let params = RootCaParams { common_name: "client", expires_after: TEN_YEARS, key, uri_san: None, now };
        let made = root_ca(&params).unwrap();
        (made.cert_pem.as_str().into(), made.key_pem.expose().into())
    }

    fn kri(name: &str) -> Kri {
        let (mesh, zone) = ("demo".to_owned(), "east".to_owned());
        let (namespace, section) = (String::new(), String::new());
        Kri { short: "extsvc", mesh, zone, namespace, name: name.to_owned(), section }
    }

    #[test]
    fn half_of_a_new_pair_is_not_used() {
        let (mut cache, bank) = (Cache::default(), kri("bank"));
        let (one, two) = (pair(), pair());
        for mixed in [(two.0.clone(), one.1.clone()), (one.0.clone(), two.1.clone())] {
            assert!(cache.matching(&bank, mixed.clone()).is_err(), "no pair matched before");
            assert_eq!(cache.matching(&bank, one.clone()).unwrap(), one);
            assert_eq!(cache.matching(&bank, mixed.clone()).unwrap(), one);
            assert!(cache.matching(&kri("shop"), mixed).is_err(), "a pair belongs to one service");
            assert_eq!(cache.matching(&bank, two.clone()).unwrap(), two);
            cache = Cache::default();
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_to_envoy() {
        let odd: ClientPair = ("CERT".into(), "KEY".into());
        assert_eq!(Cache::default().matching(&kri("bank"), odd.clone()).unwrap(), odd);
    }
}
