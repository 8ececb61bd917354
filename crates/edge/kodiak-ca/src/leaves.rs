//! Certificates issued to proxies.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use kodiak_crypto::{LeafSpec, LeafUsage};
use kodiak_engine::{Leaf, LeafIssuer, LeafRequest};
use kodiak_store::Snapshot;
use kodiak_xds::input::Identity;
use kodiak_xds_stream::Version;

use crate::{
    MeshCas, hash, identity_issuer,
    issuer::{self, Issuer},
    period::Period,
    sweep::Sweep,
    with_causes,
};

/// Separates the keys of these certificates from all others of the same CA.
fn purpose(issuer: &LeafIssuer) -> &'static str {
    match issuer {
        LeafIssuer::Backend(_) => "mesh",
        LeafIssuer::Identity { .. } => "identity",
    }
}

#[derive(Default)]
pub(crate) struct Cache {
    leaves: HashMap<LeafRequest, Cached>,
    sweep: Sweep,
}

struct Cached {
    issuer: Arc<Issuer>,
    incarnation: i64,
    epoch: u64,
    leaf: Arc<Leaf>,
}

impl Cache {
    fn get(&self, request: &LeafRequest, issuer: &Arc<Issuer>, incarnation: i64, epoch: u64) -> Option<Arc<Leaf>> {
        let cached = self.leaves.get(request)?;
        let same = Arc::ptr_eq(&cached.issuer, issuer);
        (same && cached.incarnation == incarnation && cached.epoch == epoch).then(|| cached.leaf.clone())
    }

    /// Drops expired certificates and those of deleted proxies. `true` when the cache was large enough to be swept.
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
    mesh_cas: &MeshCas,
    snapshot: &Snapshot,
    request: &LeafRequest,
    now: Timestamp,
) -> Result<Arc<Leaf>, String> {
    let LeafRequest { proxy, issuer, uris: _ } = request;
    let issuer = match issuer {
        LeafIssuer::Backend(backend) => {
            let issuer = issuer::of_backend(mesh_cas, snapshot, &proxy.mesh, backend)?;
            issuer.check_alive(now).map_err(|error| issuer::unusable(&proxy.mesh, &backend.name, &error))?;
            issuer
        }
        LeafIssuer::Identity { kri, ca, seconds } => {
            let issuer = identity_issuer::of_identity(mesh_cas, snapshot, &proxy.mesh, (kri, ca), *seconds)?;
            issuer.check_alive(now).map_err(|error| format!("the CA of MeshIdentity {kri} is not usable: {error}"))?;
            issuer
        }
    };
    // A Dataplane that took the name of another one is another identity, also within the same period.
    let dataplane = snapshot.get(&proxy.dataplane()).ok_or_else(|| format!("Dataplane {proxy} does not exist"))?;
    let incarnation = dataplane.created.as_microsecond();
    let subject = format!("{}/{}", proxy.mesh, proxy.name);
    let life = (issuer.ca.not_before(), issuer.ca.not_after());
    let period = Period::at(now, &subject, issuer.lifetime, mesh_cas.renewal, life);
    if let Some(leaf) = mesh_cas.made().leaves.get(request, &issuer, incarnation, period.epoch) {
        return Ok(leaf);
    }
    let leaf = Arc::new(make(&issuer, request, &subject, incarnation, period)?);
    let made = &mut *mesh_cas.made();
    if made.leaves.clean(snapshot, now) {
        made.mesh_cas.forget_missing(snapshot);
        made.identity_cas.forget_missing(snapshot);
        made.client_pairs.forget_missing(snapshot);
    }
    let cached = Cached { issuer, incarnation, epoch: period.epoch, leaf: leaf.clone() };
    made.leaves.leaves.insert(request.clone(), cached);
    Ok(leaf)
}

fn make(
    issuer: &Issuer,
    request: &LeafRequest,
    subject: &str,
    incarnation: i64,
    period: Period,
) -> Result<Leaf, String> {
    let Period { epoch, not_before, not_after, renew_at } = period;
    let LeafRequest { proxy, issuer: by, uris } = request;
    let purpose = purpose(by);
    let spec = LeafSpec {
        purpose,
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
    let signed = issuer
        .ca
        .issue(&spec)
        .map_err(|error| format!("failed to issue a certificate for proxy {proxy}: {}", with_causes(&error)))?;
    let chain = format!("{}{}", signed.cert_pem, issuer.intermediates);
    let identity = Identity { certificate: chain.into(), key: signed.key_pem.expose().into() };
    let version = version(issuer, purpose, subject, incarnation, period, uris);
    Ok(Leaf {
        identity,
        serial: signed.serial.into(),
        spiffe_id: uris.first().cloned().unwrap_or_default().into(),
        version,
        not_after,
        renew_at,
    })
}

/// Hash of the input of the leaf, not of its bytes: the signature may differ each time.
fn version(
    issuer: &Issuer,
    purpose: &str,
    subject: &str,
    incarnation: i64,
    period: Period,
    uris: &[String],
) -> Version {
    let (epoch, lifetime) = (period.epoch.to_le_bytes(), issuer.lifetime.as_secs().to_le_bytes());
    let (incarnation, until) = (incarnation.to_le_bytes(), period.not_after.as_second().to_le_bytes());
    let words =
        [purpose.as_bytes(), issuer.ca.certificate(), subject.as_bytes(), &incarnation, &epoch, &lifetime, &until];
    Version(hash::of_words(words.into_iter().chain(uris.iter().map(String::as_bytes))))
}
