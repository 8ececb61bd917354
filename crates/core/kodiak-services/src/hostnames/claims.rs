//! Ownership of hostnames that several services claim.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::kinds::dataplane::BackendKind;

use super::ServiceKey;

/// Hostname among the services of one kind in a mesh. It has one owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contested {
    pub(super) kind: BackendKind,
    pub(super) mesh: Arc<str>,
    pub(super) hostname: Arc<str>,
}

/// Claim of a hostname: by a generator, for a service. The first one in this order wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    pub(super) generator: Rank,
    pub(super) created: Timestamp,
    pub(super) service: Arc<str>,
}

/// Precedence of generators: those of the zone first, then by age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) is_from_elsewhere: bool,
    pub(super) created: Timestamp,
    pub(super) name: Arc<str>,
}

#[derive(Default)]
pub(super) struct Claims {
    claims: BTreeMap<Contested, BTreeSet<Claim>>,
    /// Previous owners of the hostnames that changed since the last [`Claims::settle`].
    before: BTreeMap<Contested, Option<Arc<str>>>,
}

impl Claims {
    pub(super) fn owner(&self, contested: &Contested) -> Option<&Arc<str>> {
        self.claims.get(contested)?.first().map(|claim| &claim.service)
    }

    pub(super) fn add(&mut self, contested: Contested, claim: Claim) {
        self.touch(&contested);
        self.claims.entry(contested).or_default().insert(claim);
    }

    pub(super) fn remove(&mut self, contested: &Contested, claim: &Claim) {
        self.touch(contested);
        if let Some(claims) = self.claims.get_mut(contested) {
            claims.remove(claim);
            if claims.is_empty() {
                self.claims.remove(contested);
            }
        }
    }

    /// Services with claims of hostnames whose owner changed: the status of each names the owner.
    pub(super) fn settle(&mut self) -> BTreeSet<ServiceKey> {
        let mut concerned = BTreeSet::new();
        for (contested, before) in std::mem::take(&mut self.before) {
            if self.owner(&contested) == before.as_ref() {
                continue;
            }
            let Contested { kind, mesh, .. } = &contested;
            let claims = self.claims.get(&contested).into_iter().flatten();
            concerned.extend(claims.map(|claim| ServiceKey {
                kind: *kind,
                mesh: mesh.clone(),
                name: claim.service.clone(),
            }));
        }
        concerned
    }

    fn touch(&mut self, contested: &Contested) {
        if !self.before.contains_key(contested) {
            self.before.insert(contested.clone(), self.owner(contested).cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(service: &str, age: i64) -> Claim {
        let rank = Rank { is_from_elsewhere: false, created: Timestamp::UNIX_EPOCH, name: "generator".into() };
        Claim { generator: rank, created: Timestamp::from_second(-age).unwrap(), service: service.into() }
    }

    fn contested() -> Contested {
        Contested { kind: BackendKind::MeshService, mesh: "default".into(), hostname: "web.mesh".into() }
    }

    fn settled(claims: &mut Claims) -> Vec<String> {
        claims.settle().into_iter().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn only_a_new_owner_affects_other_claims() {
        let mut claims = Claims::default();
        claims.add(contested(), claim("b", 2));
        assert_eq!(settled(&mut claims), ["b"]);
        claims.add(contested(), claim("c", 1));
        assert_eq!(settled(&mut claims), [""; 0]);
        claims.add(contested(), claim("a", 3));
        assert_eq!(settled(&mut claims), ["a", "b", "c"]);
        claims.remove(&contested(), &claim("a", 3));
        claims.add(contested(), claim("a", 4));
        assert_eq!(settled(&mut claims), [""; 0]);
        claims.remove(&contested(), &claim("a", 4));
        assert_eq!(settled(&mut claims), ["b", "c"]);
    }

    #[test]
    fn removed_claims_leave_no_state() {
        let mut claims = Claims::default();
        claims.add(contested(), claim("a", 1));
        claims.remove(&contested(), &claim("a", 1));
        assert_eq!(settled(&mut claims), [""; 0]);
        assert!(claims.claims.is_empty() && claims.before.is_empty());
    }
}
