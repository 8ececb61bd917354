//! The certificates of proxies.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use kodiak_crypto::{LeafSpec, LeafUsage};
use kodiak_engine::{Leaf, LeafRequest};
use kodiak_store::Snapshot;
use kodiak_xds::input::Identity;
use kodiak_xds_stream::Version;

use crate::{
    Authorities,
    authority::{self, Authority},
    hash,
    period::Period,
    sweep::Sweep,
    told,
};

/// Keeps the keys of these certificates apart from all others of the same authority.
const PURPOSE: &str = "mesh";

#[derive(Default)]
pub(crate) struct Cache {
    leaves: HashMap<LeafRequest, Cached>,
    sweep: Sweep,
}

struct Cached {
    authority: Arc<Authority>,
    incarnation: i64,
    epoch: u64,
    leaf: Arc<Leaf>,
}

impl Cache {
    fn get(
        &self,
        request: &LeafRequest,
        authority: &Arc<Authority>,
        incarnation: i64,
        epoch: u64,
    ) -> Option<Arc<Leaf>> {
        let cached = self.leaves.get(request)?;
        let same = Arc::ptr_eq(&cached.authority, authority);
        (same && cached.incarnation == incarnation && cached.epoch == epoch).then(|| cached.leaf.clone())
    }

    /// Lets go of what is over, and of proxies that are gone. `true` when there was so much that it was worth it.
    fn clean(&mut self, snapshot: &Snapshot, now: Timestamp) -> bool {
        if !self.sweep.is_due(self.leaves.len()) {
            return false;
        }
        self.leaves
            .retain(|request, cached| now < cached.leaf.renew_at && snapshot.get(&request.proxy.dataplane()).is_some());
        self.sweep.done(self.leaves.len());
        true
    }
}

pub(crate) fn leaf(
    authorities: &Authorities,
    snapshot: &Snapshot,
    request: &LeafRequest,
    now: Timestamp,
) -> Result<Arc<Leaf>, String> {
    let LeafRequest { proxy, backend, uris: _ } = request;
    let authority = authority::of_backend(authorities, snapshot, &proxy.mesh, backend)?;
    authority.check_alive(now).map_err(|error| authority::unusable(&proxy.mesh, backend, &error))?;
    // A Dataplane that took the name of another one is another identity, also within the same period.
    let dataplane = snapshot.get(&proxy.dataplane()).ok_or_else(|| format!("there is no Dataplane {proxy}"))?;
    let incarnation = dataplane.created.as_microsecond();
    let subject = format!("{}/{}", proxy.mesh, proxy.name);
    let life = (authority.ca.not_before(), authority.ca.not_after());
    let period = Period::at(now, &subject, authority.lifetime, authorities.renewal, life);
    if let Some(leaf) = authorities.made().leaves.get(request, &authority, incarnation, period.epoch) {
        return Ok(leaf);
    }
    let leaf = Arc::new(make(&authority, request, &subject, incarnation, period)?);
    let made = &mut *authorities.made();
    if made.leaves.clean(snapshot, now) {
        made.authorities.forget_missing(snapshot);
    }
    let cached = Cached { authority, incarnation, epoch: period.epoch, leaf: leaf.clone() };
    made.leaves.leaves.insert(request.clone(), cached);
    Ok(leaf)
}

fn make(
    authority: &Authority,
    request: &LeafRequest,
    subject: &str,
    incarnation: i64,
    period: Period,
) -> Result<Leaf, String> {
    let Period { epoch, not_before, not_after, renew_at } = period;
    let LeafRequest { proxy, backend: _, uris } = request;
    let spec = LeafSpec {
        purpose: PURPOSE,
        subject,
        incarnation,
        epoch,
        usage: LeafUsage::Both,
        not_before,
        not_after,
        uris,
        dns_names: &[],
        ips: &[],
    };
    let issued = authority
        .ca
        .issue(&spec)
        .map_err(|error| format!("cannot make a certificate for the proxy {proxy}: {}", told(&error)))?;
    let identity = Identity { certificate: issued.cert_pem.into(), key: issued.key_pem.expose().into() };
    let version = version(authority, subject, incarnation, period, uris);
    Ok(Leaf { identity, version, not_after, renew_at })
}

/// Of all that the leaf is made from, not of its bytes: the signature may be another one each time.
fn version(authority: &Authority, subject: &str, incarnation: i64, period: Period, uris: &[String]) -> Version {
    let (epoch, lifetime) = (period.epoch.to_le_bytes(), authority.lifetime.as_secs().to_le_bytes());
    let (incarnation, until) = (incarnation.to_le_bytes(), period.not_after.as_second().to_le_bytes());
    let words =
        [PURPOSE.as_bytes(), authority.ca.certificate(), subject.as_bytes(), &incarnation, &epoch, &lifetime, &until];
    Version(hash::of_words(words.into_iter().chain(uris.iter().map(String::as_bytes))))
}
