//! Interns kind and mesh names.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::ResourceKey;

#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeSet<Arc<str>>,
    /// Above this size, unused names are dropped.
    limit: usize,
}

impl Names {
    const MIN_LIMIT: usize = 1024;

    pub(crate) fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if self.known.len() >= self.limit.max(Self::MIN_LIMIT) {
            self.known.retain(|name| Arc::strong_count(name) > 1);
            self.limit = self.known.len() * 2;
        }
        let name: Arc<str> = name.into();
        self.known.insert(name.clone());
        name
    }

    /// The key with interned kind and mesh. Its name is not shared.
    pub(crate) fn key(&mut self, [kind, mesh, name]: [&str; 3]) -> ResourceKey {
        ResourceKey { kind: self.get(kind), mesh: self.get(mesh), name: name.into() }
    }

    /// The key with every part interned: few owners have many records.
    pub(crate) fn owner(&mut self, [kind, mesh, name]: [&str; 3]) -> ResourceKey {
        ResourceKey { kind: self.get(kind), mesh: self.get(mesh), name: self.get(name) }
    }

    pub(crate) fn share(&mut self, key: &mut ResourceKey) {
        key.kind = self.get(&key.kind);
        key.mesh = self.get(&key.mesh);
    }

    pub(crate) fn share_owner(&mut self, key: &mut ResourceKey) {
        self.share(key);
        key.name = self.get(&key.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_shared() {
        let mut names = Names::default();
        let a = names.key(["Dataplane", "default", "a"]);
        let b = names.key(["Dataplane", "default", "b"]);
        assert!(Arc::ptr_eq(&a.kind, &b.kind) && Arc::ptr_eq(&a.mesh, &b.mesh));
    }

    #[test]
    fn unused_names_are_dropped() {
        let mut names = Names::default();
        let kept = names.get("kept");
        for mesh in 0..10 * Names::MIN_LIMIT {
            names.get(&format!("mesh-{mesh}"));
        }
        assert!(names.known.len() <= Names::MIN_LIMIT);
        assert!(Arc::ptr_eq(&kept, &names.get("kept")));
    }
}
