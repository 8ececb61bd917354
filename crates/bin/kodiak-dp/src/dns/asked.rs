//! Names that the control plane knows and this proxy does not: those of destinations that it may not call.
//!
//! The proxy answers calls to them itself, and says why. Names that the control plane does not know either are resolved
//! by the nameservers of the machine, as those outside the mesh.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// Time for an answer of the control plane.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which an address is kept, as long as clients keep it.
const KEPT: Duration = Duration::from_secs(30);
/// Time for which a name is known not to exist, and for which a control plane that did not answer is not asked again.
const PAUSE: Duration = Duration::from_secs(5);
const MOST_KEPT: usize = 1024;

pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Option<Ipv4Addr>, String>> + Send + 'a>>;

/// The control plane, as it answers for hostnames.
pub(crate) trait Directory: Send + Sync + 'static {
    /// Address of a hostname of the mesh; `None` if there is no such one.
    fn resolve<'a>(&'a self, hostname: &'a str) -> Answer<'a>;
}

#[derive(Clone)]
pub(super) struct Asked {
    directory: Arc<dyn Directory>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// Addresses of names, and until when they are kept.
    names: BTreeMap<String, (Option<Ipv4Addr>, Instant)>,
    /// The control plane did not answer.
    paused_until: Option<Instant>,
}

impl Asked {
    pub(super) fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory, known: Arc::default() }
    }

    pub(super) async fn address(&self, name: &str) -> Option<Ipv4Addr> {
        let now = Instant::now();
        {
            let known = self.known();
            match known.names.get(name) {
                Some((address, until)) if *until > now => return *address,
                Some(_) | None if known.paused_until.is_some_and(|until| until > now) => return None,
                Some(_) | None => (),
            }
        }
        let answer = timeout(PATIENCE, self.directory.resolve(name)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no response within {PATIENCE:?}")));
        let mut known = self.known();
        match answer {
            Ok(address) => {
                known.keep(name, address);
                address
            }
            Err(error) => {
                tracing::warn!(%error, "failed to ask the control plane for a hostname, asking again in {PAUSE:?}");
                known.paused_until = Some(Instant::now() + PAUSE);
                None
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn keep(&mut self, name: &str, address: Option<Ipv4Addr>) {
        let now = Instant::now();
        if self.names.len() >= MOST_KEPT {
            self.names.retain(|_, (_, until)| *until > now);
        }
        if self.names.len() >= MOST_KEPT {
            self.names.clear();
        }
        let time = if address.is_some() { KEPT } else { PAUSE };
        self.names.insert(name.to_owned(), (address, now + time));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Knows `x.mesh`, fails for `broken`, and never answers for `silent`.
    #[derive(Default)]
    struct Fake(AtomicU64);

    impl Directory for Fake {
        fn resolve<'a>(&'a self, hostname: &'a str) -> Answer<'a> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match hostname {
                    "silent" => std::future::pending().await,
                    "broken" => Err("offline".to_owned()),
                    _ => Ok((hostname == "x.mesh").then_some(Ipv4Addr::new(240, 0, 0, 1))),
                }
            })
        }
    }

    fn asked() -> (Asked, Arc<Fake>) {
        let fake = Arc::<Fake>::default();
        (Asked::new(fake.clone()), fake)
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_while() {
        let (asked, fake) = asked();
        let known = Some(Ipv4Addr::new(240, 0, 0, 1));
        for (wait, name, address, count) in [
            (0, "x.mesh", known, 1),
            (29, "x.mesh", known, 1),
            (2, "x.mesh", known, 2),
            (0, "y.mesh", None, 3),
            (4, "y.mesh", None, 3),
            (2, "y.mesh", None, 4),
        ] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            assert_eq!((asked.address(name).await, fake.0.load(Ordering::Relaxed)), (address, count), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn control_plane_that_does_not_answer_is_not_asked_for_a_while() {
        for failing in ["broken", "silent"] {
            let (asked, fake) = asked();
            assert_eq!(asked.address(failing).await, None);
            assert_eq!((asked.address("x.mesh").await, fake.0.load(Ordering::Relaxed)), (None, 1));
            tokio::time::sleep(PAUSE).await;
            assert!(asked.address("x.mesh").await.is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_for_names_is_bounded() {
        let (asked, _) = asked();
        for number in 0..3 * MOST_KEPT {
            asked.address(&number.to_string()).await;
        }
        assert!(asked.known().names.len() <= MOST_KEPT);
    }
}
