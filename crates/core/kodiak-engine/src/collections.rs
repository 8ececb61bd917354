//! Collections in which nothing empty is left behind: maps of collections, and sets that count.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, btree_map},
};

/// Collections that a [`PrunedMap`] can hold.
pub(crate) trait Collection: Default {
    fn is_empty(&self) -> bool;
}

impl<T> Collection for BTreeSet<T> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// A map that removes a collection once nothing is left in it.
///
/// **Invariant:** no value is empty, as long as callers of [`PrunedMap::grow`] add something.
#[derive(Debug, Clone)]
pub(crate) struct PrunedMap<K, C>(BTreeMap<K, C>);

/// Several values for each key.
pub(crate) type Multimap<K, V> = PrunedMap<K, BTreeSet<V>>;

impl<K, C> Default for PrunedMap<K, C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, C: Collection> PrunedMap<K, C> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&C>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    pub(crate) fn keys(&self) -> btree_map::Keys<'_, K, C> {
        self.0.keys()
    }

    pub(crate) fn iter(&self) -> btree_map::Iter<'_, K, C> {
        self.0.iter()
    }

    /// The collection of a key, which may be a new one, for the caller to add to.
    pub(crate) fn grow(&mut self, key: K) -> &mut C {
        self.0.entry(key).or_default()
    }

    /// Lets `take` remove from the collection of a key, if there is one.
    pub(crate) fn shrink<Q: Ord + ?Sized>(&mut self, key: &Q, take: impl FnOnce(&mut C))
    where
        K: Borrow<Q>,
    {
        if let Some(collection) = self.0.get_mut(key) {
            take(collection);
            if collection.is_empty() {
                self.0.remove(key);
            }
        }
    }
}

impl<K: Ord, V: Ord> Multimap<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.grow(key).insert(value);
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q, value: &V)
    where
        K: Borrow<Q>,
    {
        self.shrink(key, |values| {
            values.remove(value);
        });
    }
}

/// A set in which a value stays until it was removed as often as it was added.
#[derive(Debug, Clone)]
pub(crate) struct CountedSet<T>(BTreeMap<T, usize>);

impl<T> Default for CountedSet<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Collection for CountedSet<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Ord> CountedSet<T> {
    /// Each value once.
    pub(crate) fn iter(&self) -> btree_map::Keys<'_, T, usize> {
        self.0.keys()
    }

    pub(crate) fn add(&mut self, value: T) {
        *self.0.entry(value).or_default() += 1;
    }

    /// Whether both have the same values, added as often as may be.
    pub(crate) fn has_same_values(&self, other: &Self) -> bool {
        self.0.keys().eq(other.0.keys())
    }

    /// Takes back one addition. A value that is not in the set is ignored.
    pub(crate) fn remove(&mut self, value: &T) {
        if let Some(count) = self.0.get_mut(value) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn multimap_removes_a_key_with_its_last_value() {
        let mut map = Multimap::default();
        map.insert("a", 1);
        map.insert("a", 2);
        map.insert("a", 2);
        map.remove("a", &2);
        assert_eq!(map.get("a"), Some(&BTreeSet::from([1])));
        map.remove("a", &2);
        map.remove("b", &1);
        assert_eq!(map.keys().collect::<Vec<_>>(), [&"a"]);
        map.remove("a", &1);
        assert_eq!(map.keys().count(), 0);
    }

    #[test]
    fn counted_set_keeps_a_value_until_it_was_removed_as_often_as_added() {
        let mut set = CountedSet::default();
        set.add("a");
        set.add("a");
        set.remove(&"a");
        set.remove(&"b");
        assert_eq!(set.iter().collect::<Vec<_>>(), [&"a"]);
        set.remove(&"a");
        assert!(set.is_empty());
        set.remove(&"a");
        set.add("a");
        assert_eq!(set.iter().count(), 1, "removals in excess are not remembered");
    }

    #[test]
    fn pruned_map_keeps_a_collection_that_only_shrinks() {
        let mut map = PrunedMap::<_, CountedSet<_>>::default();
        map.grow("a").add(1);
        map.grow("a").add(1);
        map.shrink("a", |counts| counts.remove(&1));
        assert!(map.get("a").is_some());
        map.shrink("a", |counts| counts.remove(&1));
        assert!(map.get("a").is_none());
    }

    proptest! {
        #[test]
        fn multimap_holds_the_pairs_that_a_set_of_pairs_would(edits in prop::collection::vec((any::<bool>(), 0..4u8, 0..4u8), 0..64)) {
            let (mut map, mut pairs) = (Multimap::default(), BTreeSet::new());
            for (adds, key, value) in edits {
                if adds {
                    map.insert(key, value);
                    pairs.insert((key, value));
                } else {
                    map.remove(&key, &value);
                    pairs.remove(&(key, value));
                }
                let held: BTreeSet<_> = map.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, *value))).collect();
                prop_assert_eq!(&held, &pairs);
                prop_assert!(map.iter().all(|(_, values)| !values.is_empty()));
            }
        }
    }
}
