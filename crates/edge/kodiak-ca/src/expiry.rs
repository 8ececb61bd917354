//! Expiration of certificates in use: for metrics, for the status of a proxy, and for warnings well before one expires.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_engine::Issued;
use kodiak_metrics::MeshMetrics;
use kodiak_model::ProxyKey;
use tokio_util::sync::CancellationToken;

use crate::{CaLife, MeshCas};

/// How often expirations are checked. The shortest certificate lives for two seconds.
const LOOK: Duration = Duration::from_secs(1);

/// Part of the time between the renewal of a leaf and its expiration after which the renewal counts as failed.
const OVERDUE: i32 = 4;

/// A CA with a short lifetime is warned about in the last part of it.
const LAST_PART: i32 = 5;

/// Leaves of the proxies that are connected here. Cheap to clone.
#[derive(Clone, Default)]
pub struct Expiries(Arc<Mutex<BTreeMap<ProxyKey, Life>>>);

/// Expiration of the leaf of one proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafExpiry {
    pub not_after: Timestamp,
    /// Time until then, for people: `4h 12m`.
    pub expires_in: String,
    /// Present when the leaf should have been renewed by now.
    pub warning: Option<String>,
}

/// Renewal and expiration of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    renew_at: Timestamp,
    not_after: Timestamp,
}

impl Life {
    /// Whether the renewal of the leaf is overdue.
    fn is_overdue(self, now: Timestamp) -> bool {
        let spare = self.not_after.duration_since(self.renew_at) / OVERDUE;
        self.renew_at.saturating_add(spare).is_ok_and(|late| late <= now)
    }
}

impl Expiries {
    /// A certificate was issued to the proxy.
    pub fn issued(&self, proxy: &ProxyKey, issued: Option<&Issued>) {
        let leaf = issued.and_then(|issued| issued.leaf.as_ref());
        let life = leaf.map(|leaf| Life { renew_at: leaf.renew_at, not_after: leaf.not_after });
        match life {
            Some(life) => drop(self.lives().insert(proxy.clone(), life)),
            None => self.disconnected(proxy),
        }
    }

    pub fn disconnected(&self, proxy: &ProxyKey) {
        self.lives().remove(proxy);
    }

    pub fn of(&self, proxy: &ProxyKey, now: Timestamp) -> Option<LeafExpiry> {
        let life = *self.lives().get(proxy)?;
        let left = life.not_after.duration_since(now);
        let warning = life.is_overdue(now).then(|| {
            format!("the certificate expires in {} and was not renewed at {}; see the faults and the log of the control plane", text(left), life.renew_at)
        });
        Some(LeafExpiry { not_after: life.not_after, expires_in: text(left), warning })
    }

    fn lives(&self) -> MutexGuard<'_, BTreeMap<ProxyKey, Life>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each mesh: the first expiration of a leaf, and the leaves whose renewal failed.
    fn by_mesh(&self, now: Timestamp) -> BTreeMap<Arc<str>, Leaves> {
        let mut meshes: BTreeMap<Arc<str>, Leaves> = BTreeMap::new();
        for (proxy, life) in &*self.lives() {
            let leaves = meshes.entry(proxy.mesh.clone()).or_default();
            leaves.first = Some(leaves.first.map_or(life.not_after, |first| first.min(life.not_after)));
            if life.is_overdue(now) {
                leaves.overdue += 1;
                if leaves.next.as_ref().is_none_or(|(_, next)| life.not_after < *next) {
                    leaves.next = Some((proxy.clone(), life.not_after));
                }
            }
        }
        meshes
    }
}

#[derive(Default)]
struct Leaves {
    first: Option<Timestamp>,
    overdue: usize,
    /// The overdue leaf that expires first.
    next: Option<(ProxyKey, Timestamp)>,
}

/// Updates the metrics and logs warnings, until the drain.
pub async fn watch_expiries(
    expiries: Expiries,
    mesh_cas: MeshCas,
    metrics: MeshMetrics,
    ca_warning: SignedDuration,
    drain: CancellationToken,
) {
    let mut warned = Warned::default();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = drain.cancelled() => return,
            _ = look.tick() => (),
        }
        let now = Timestamp::now();
        let leaves = expiries.by_mesh(now);
        let cas = mesh_cas.cas();
        let mut first: BTreeMap<(&str, &str), Timestamp> = BTreeMap::new();
        let ends = leaves.iter().filter_map(|(mesh, leaves)| Some(((&**mesh, "leaf"), leaves.first?)));
        for (key, end) in ends.chain(cas.iter().map(|ca| ((&*ca.mesh, "ca"), ca.not_after))) {
            first.entry(key).and_modify(|first| *first = end.min(*first)).or_insert(end);
        }
        let seconds = |end: Timestamp| end.duration_since(now).as_secs();
        metrics.certificates(first.into_iter().map(|((mesh, kind), end)| (mesh, kind, seconds(end))));
        for (mesh, leaves) in &leaves {
            let Some((proxy, end)) = &leaves.next else { continue };
            let left = end.duration_since(now);
            if warned.is_due(format!("{mesh}/"), left) {
                let (left, proxies) = (text(left), leaves.overdue);
                tracing::warn!(%mesh, %proxy, proxies, "certificates expire in {left}: renewal failed, retrying");
            }
        }
        for ca in cas {
            let left = ca.not_after.duration_since(now);
            if left <= warn_at(&ca, ca_warning) && warned.is_due(format!("{}/{}", ca.mesh, ca.backend), left) {
                let CaLife { mesh, backend, .. } = &ca;
                tracing::warn!(
                    %mesh,
                    %backend,
                    "CA certificates expire in {}: add another mTLS backend and set enabledBackend to it",
                    text(left)
                );
            }
        }
    }
}

/// Remaining lifetime of a CA below which warnings are due.
fn warn_at(ca: &CaLife, ca_warning: SignedDuration) -> SignedDuration {
    ca_warning.min(ca.not_after.duration_since(ca.not_before) / LAST_PART)
}

/// Warns once, and again whenever half of the remaining time has passed.
#[derive(Default)]
struct Warned(BTreeMap<String, SignedDuration>);

impl Warned {
    fn is_due(&mut self, about: String, left: SignedDuration) -> bool {
        // More is left than before: it was renewed in between.
        let due = self.0.get(&about).is_none_or(|before| left <= *before / 2 && left < *before || left > *before);
        if due {
            self.0.insert(about, left);
        }
        due
    }
}

/// `3d 4h`, `4h 12m`, `12m 5s` or `5s`; `0s` for a time in the past.
fn text(left: SignedDuration) -> String {
    let seconds = left.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (1.., _, _) => format!("{days}d {hours}h"),
        (0, 1.., _) => format!("{hours}h {minutes}m"),
        (0, 0, 1..) => format!("{minutes}m {}s", seconds % 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn left(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    fn with(lives: &[(&str, i64, i64)]) -> Expiries {
        let lives = lives.iter().map(|(name, renew_at, not_after)| {
            (ProxyKey::new("demo", name), Life { renew_at: at(*renew_at), not_after: at(*not_after) })
        });
        Expiries(Arc::new(Mutex::new(lives.collect())))
    }

    #[test]
    fn first_expiration_and_overdue_leaves_are_found() {
        let expiries = with(&[("fine", 1000, 2000), ("late", 100, 500), ("later", 100, 600)]);
        let leaves = expiries.by_mesh(at(150)).remove("demo").unwrap();
        assert_eq!((leaves.first, leaves.overdue), (Some(at(500)), 0), "a renewal has time");
        let leaves = expiries.by_mesh(at(230)).remove("demo").unwrap();
        assert_eq!((leaves.first, leaves.overdue), (Some(at(500)), 2));
        assert_eq!(leaves.next, Some((ProxyKey::new("demo", "late"), at(500))));
        let status = expiries.of(&ProxyKey::new("demo", "late"), at(230)).unwrap();
        assert_eq!(status.expires_in, "4m 30s");
        assert!(status.warning.unwrap().starts_with("the certificate expires in 4m 30s"));
        assert_eq!(expiries.of(&ProxyKey::new("demo", "fine"), at(230)).unwrap().warning, None);
        expiries.disconnected(&ProxyKey::new("demo", "late"));
        assert_eq!(expiries.by_mesh(at(230)).remove("demo").unwrap().first, Some(at(600)));
    }

    #[test]
    fn warnings_repeat_after_half_of_the_remaining_time() {
        let mut warned = Warned::default();
        let due: Vec<bool> =
            [100, 99, 51, 50, 49, 25, 24, 200, 150].map(|seconds| warned.is_due("a".to_owned(), left(seconds))).into();
        assert_eq!(due, [true, false, false, true, false, true, false, true, false]);
        assert!(warned.is_due("b".to_owned(), left(1)));
    }

    #[test]
    fn ca_is_warned_about_well_before_its_expiration() {
        let ca =
            |life: i64| CaLife { mesh: "demo".into(), backend: "ca".into(), not_before: at(0), not_after: at(life) };
        assert_eq!(warn_at(&ca(100_000), left(1_000)), left(1_000));
        assert_eq!(
            warn_at(&ca(1_000), left(1_000)),
            left(200),
            "a CA with a short lifetime is not warned about all the time"
        );
    }

    #[test]
    fn times_have_two_units() {
        let texts = [0, 5, 65, 3_700, 90_000, -5].map(|seconds| text(left(seconds)));
        assert_eq!(texts, ["0s", "5s", "1m 5s", "1h 1m", "1d 1h", "0s"]);
    }
}
