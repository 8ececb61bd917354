//! Proxies of a mesh that run: they are connected to a control plane, or were a moment ago.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

/// A proxy that lost its connection counts as serving for so long, with what it had.
pub(crate) const ABSENCE: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default)]
pub(crate) struct Presence {
    online: BTreeSet<Arc<str>>,
    /// Until when they count.
    absent: BTreeMap<Arc<str>, Timestamp>,
}

impl Presence {
    /// `left`: when the proxy lost its last connection, for one that is seen first. Returns whether it connected or lost its
    /// connection.
    pub(crate) fn set(&mut self, name: &Arc<str>, is_online: bool, left: Option<Timestamp>, now: Timestamp) -> bool {
        if is_online {
            self.absent.remove(name);
            return self.online.insert(name.clone());
        }
        let was_online = self.online.remove(name);
        let since = if was_online { Some(now) } else { left };
        let until = since.and_then(|since| since.checked_add(ABSENCE).ok()).filter(|until| *until > now);
        if let Some(until) = until {
            self.absent.entry(name.clone()).or_insert(until);
        }
        was_online
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.online.remove(name);
        self.absent.remove(name);
    }

    pub(crate) fn is_online(&self, name: &str) -> bool {
        self.online.contains(name)
    }

    pub(crate) fn may_run(&self, name: &str) -> bool {
        self.is_online(name) || self.absent.contains_key(name)
    }

    /// Removes those that do not count any longer.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        let expired = self.absent.iter().filter(|(_, until)| **until <= now);
        let expired: Vec<Arc<str>> = expired.map(|(name, _)| name.clone()).collect();
        for name in &expired {
            self.absent.remove(name);
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_counts_for_a_time_after_its_connection() {
        let (mut presence, name): (_, Arc<str>) = (Presence::default(), "web".into());
        let start = Timestamp::from_second(100).unwrap();
        assert!(!presence.set(&name, false, None, start) && !presence.may_run(&name), "it never ran");
        assert!(presence.set(&name, true, None, start) && presence.is_online(&name));
        assert!(presence.set(&name, false, Some(start), start) && !presence.is_online(&name));
        assert!(!presence.set(&name, false, Some(start), start + ABSENCE / 2) && presence.may_run(&name));
        assert!(presence.expire(start + ABSENCE / 2).is_empty());
        assert_eq!(presence.expire(start + ABSENCE), std::slice::from_ref(&name));
        assert!(!presence.may_run(&name));
        assert!(!presence.set(&name, false, Some(start), start + ABSENCE) && !presence.may_run(&name));
    }
}
