//! Quarantine: isolates panics on stored data, and ignores the resource that causes them.
//!
//! Stored data outlives the process: a resource that panics its readers would end every control plane at every start.
//! So tasks with state that is built from resources run under [`caught`]. After a panic, [`build`] rebuilds the state
//! from all resources except those that cause a panic.

use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kodiak_model::ResourceKey;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Message of a panic that was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(pub String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

/// Runs `work`. State that it changed before a panic must be discarded.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let before = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(before);
    done.map_err(|payload| Panicked(message(&*payload)))
}

/// Whether a panic in this thread is caught, and reported by its catcher. For panic hooks.
pub fn is_caught() -> bool {
    CATCHING.get()
}

/// Message of a panic.
pub fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// Value built from all items that are not faulty.
pub struct Built<T> {
    pub value: T,
    /// Positions of the items that were ignored.
    pub faulty: Vec<(usize, Panicked)>,
}

/// Builds a value from as many items as possible. An item is faulty when the items before it are fine without it and
/// panic with it, so items that are known to be fine come first.
///
/// # Panics
///
/// When `make` panics without any items.
pub fn build<I, T>(items: &[I], make: impl Fn(&[&I]) -> T) -> Built<T> {
    let attempt = |kept: &[usize]| caught(|| make(&kept.iter().map(|item| &items[*item]).collect::<Vec<_>>()));
    let mut kept: Vec<usize> = (0..items.len()).collect();
    let mut faulty = Vec::new();
    // Length of the prefix that is known to be fine, without the faulty items.
    let mut fine = 0;
    loop {
        let mut why = match attempt(&kept) {
            Ok(value) => return Built { value, faulty },
            Err(panicked) => panicked,
        };
        assert!(!kept.is_empty(), "building from no items {why}");
        let mut panics = kept.len();
        while panics - fine > 1 {
            let middle = fine + (panics - fine) / 2;
            match attempt(&kept[..middle]) {
                Ok(_) => fine = middle,
                Err(panicked) => (panics, why) = (middle, panicked),
            }
        }
        faulty.push((kept.remove(panics - 1), why));
    }
}

/// Quarantined resources of all tasks. Cheap to clone.
#[derive(Clone, Default)]
pub struct Quarantine(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entries: Mutex<BTreeMap<(ResourceKey, &'static str), Entry>>,
    observer: Option<Observer>,
}

/// Called with the number of quarantined resources after each change.
pub type Observer = Box<dyn Fn(usize) + Send + Sync>;

/// Quarantined revision of a resource, and its panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A newer revision is tried again.
    pub revision: u64,
    pub panicked: Panicked,
}

impl Quarantine {
    pub fn new(observer: Observer) -> Self {
        Self(Arc::new(Inner { entries: Mutex::default(), observer: Some(observer) }))
    }

    /// Whether `task` ignores this revision of a resource.
    pub fn holds(&self, task: &'static str, key: &ResourceKey, revision: u64) -> bool {
        let entries = self.entries();
        // Nearly always empty; then no key is copied.
        !entries.is_empty() && entries.get(&(key.clone(), task)).is_some_and(|entry| entry.revision == revision)
    }

    pub fn add(&self, task: &'static str, key: &ResourceKey, entry: Entry) {
        let Entry { revision, panicked } = &entry;
        tracing::error!(
            resource = %key, revision, task, %panicked,
            "resource quarantined: it is ignored until it is changed or deleted"
        );
        let mut entries = self.entries();
        entries.insert((key.clone(), task), entry);
        self.observe(&entries);
    }

    /// Called when the resource was changed or deleted.
    pub fn release(&self, task: &'static str, key: &ResourceKey) {
        let mut entries = self.entries();
        if !entries.is_empty() && entries.remove(&(key.clone(), task)).is_some() {
            tracing::info!(resource = %key, task, "resource released from quarantine");
            self.observe(&entries);
        }
    }

    /// Quarantined resources, each with the task that ignores it.
    pub fn list(&self) -> Vec<(ResourceKey, &'static str, Entry)> {
        self.entries().iter().map(|((key, task), entry)| (key.clone(), *task, entry.clone())).collect()
    }

    fn observe(&self, entries: &BTreeMap<(ResourceKey, &'static str), Entry>) {
        if let Some(observer) = &self.0.observer {
            let mut resources: Vec<_> = entries.keys().map(|(key, _)| key).collect();
            resources.dedup();
            observer(resources.len());
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<(ResourceKey, &'static str), Entry>> {
        // The map is consistent after every statement.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum; 13 panics, and so do 4 and 5 together.
    fn sum(items: &[&u32]) -> u32 {
        let has = |number: u32| items.contains(&&number);
        assert!(!has(13), "13 is unlucky");
        assert!(!(has(4) && has(5)), "4 and 5 do not go together");
        items.iter().copied().sum()
    }

    #[test]
    fn ignores_only_items_that_panic() {
        let Built { value, faulty } = build(&[1, 4, 13, 2, 5, 13, 3], sum);
        assert_eq!(value, 1 + 4 + 2 + 3);
        let faulty: Vec<_> = faulty.into_iter().map(|(item, Panicked(why))| (item, why)).collect();
        let [unlucky, together] = ["13 is unlucky", "4 and 5 do not go together"].map(str::to_owned);
        assert_eq!(faulty, [(2, unlucky.clone()), (4, together), (5, unlucky)]);
    }

    #[test]
    fn ignores_nothing_without_a_panic() {
        assert!(build(&[1, 2, 3], sum).faulty.is_empty());
        assert_eq!(build(&[], sum).value, 0);
    }

    #[test]
    fn single_item_may_be_faulty() {
        assert_eq!(build(&[13], sum).faulty.len(), 1);
    }

    #[test]
    fn newer_revision_is_not_quarantined() {
        let quarantine = Quarantine::default();
        let key = ResourceKey::in_mesh("MeshTimeout", "default", "slow");
        quarantine.add("engine", &key, Entry { revision: 7, panicked: Panicked("oh".to_owned()) });
        assert!(quarantine.holds("engine", &key, 7) && !quarantine.holds("engine", &key, 8));
        assert!(!quarantine.holds("services", &key, 7), "other tasks are not affected");
        quarantine.release("engine", &key);
        assert!(quarantine.list().is_empty());
    }
}
