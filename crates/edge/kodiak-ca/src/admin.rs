//! Certificates for Envoy's admin interface: one for each proxy, and one for the control planes as clients.
//!
//! They are valid as long as their CA, so they change only with it or with the address of the proxy.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kodiak_catalog::ADMIN_CA;
use kodiak_crypto::{CaPair, LeafSpec, LeafUsage, PrivatePem};
use kodiak_engine::ADMIN_CLIENT_NAME;
use kodiak_model::{ProxyKey, ResourceKey};
use kodiak_store::Snapshot;
use kodiak_world::Resource;
use kodiak_xds::input::AdminCertificate;

use crate::{MeshCas, sweep::Sweep, with_causes};

/// Separates the keys of these certificates: no proxy can impersonate a control plane.
const SERVER: &str = "admin server";
const CLIENT: &str = "admin client";

/// Client credentials of a control plane for the admin interface of proxies. All of it is PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminClient {
    pub certificate: String,
    pub key: PrivatePem,
    /// The CA of the proxies' certificates.
    pub ca: String,
}

#[derive(Default)]
pub(crate) struct Cache {
    issuer: Option<(u64, Arc<AdminIssuer>)>,
    proxies: BTreeMap<ProxyKey, Cached>,
    sweep: Sweep,
}

impl Cache {
    /// Caches it, and drops deleted proxies when the cache is large.
    fn keep(&mut self, snapshot: &Snapshot, proxy: ProxyKey, cached: Cached) {
        if self.sweep.is_due(self.proxies.len()) {
            self.proxies.retain(|proxy, _| snapshot.get(&proxy.dataplane()).is_some());
            self.sweep.done(self.proxies.len());
        }
        self.proxies.insert(proxy, cached);
    }
}

struct AdminIssuer {
    ca: CaPair,
    client: Arc<AdminClient>,
}

struct Cached {
    issuer: Arc<AdminIssuer>,
    incarnation: i64,
    addresses: Vec<String>,
    /// `None` when issuing failed, which is logged once.
    certificate: Option<Arc<AdminCertificate>>,
}

pub(crate) fn client(mesh_cas: &MeshCas, snapshot: &Snapshot) -> Result<Arc<AdminClient>, String> {
    Ok(issuer(mesh_cas, snapshot)?.client.clone())
}

pub(crate) fn of_proxy(mesh_cas: &MeshCas, snapshot: &Snapshot, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
    let dataplane = snapshot.world().get(&proxy.dataplane());
    let incarnation = dataplane.map_or(0, |dataplane| dataplane.created.as_microsecond());
    let addresses = dataplane.and_then(|dataplane| addresses(dataplane));
    let issuer = issuer(mesh_cas, snapshot).inspect_err(|error| tracing::debug!(%proxy, error));
    let (Some(addresses), Ok(issuer)) = (addresses, issuer) else {
        mesh_cas.made().admin.proxies.remove(proxy);
        return None;
    };
    if let Some(cached) = mesh_cas.made().admin.proxies.get(proxy)
        && Arc::ptr_eq(&cached.issuer, &issuer)
        && cached.incarnation == incarnation
        && cached.addresses == addresses
    {
        return cached.certificate.clone();
    }
    let certificate = match make(&issuer, proxy, incarnation, &addresses) {
        Ok(certificate) => Some(Arc::new(certificate)),
        Err(error) => {
            tracing::warn!(%proxy, error, "failed to issue the admin certificate of a proxy, its admin interface is unreachable");
            None
        }
    };
    let cached = Cached { issuer, incarnation, addresses, certificate: certificate.clone() };
    mesh_cas.made().admin.keep(snapshot, proxy.clone(), cached);
    certificate
}

/// Addresses at which the control plane reaches the proxy, and at which the proxy listens.
fn addresses(dataplane: &Resource) -> Option<Vec<String>> {
    let networking = dataplane.proxy()?.dataplane.networking.as_ref()?;
    let addresses = [&networking.address, &networking.advertised_address].into_iter();
    let addresses: Vec<String> = addresses.filter(|address| !address.is_empty()).cloned().collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn make(
    issuer: &AdminIssuer,
    proxy: &ProxyKey,
    incarnation: i64,
    addresses: &[String],
) -> Result<AdminCertificate, String> {
    if let Some(taken) = addresses.iter().find(|address| address.eq_ignore_ascii_case(ADMIN_CLIENT_NAME)) {
        return Err(format!(
            "the address {taken:?} of the Dataplane is the name of the control plane; use another address"
        ));
    }
    let (mut dns_names, mut ips) = (Vec::new(), Vec::new());
    for address in addresses {
        match address.parse::<IpAddr>() {
            Ok(ip) => ips.push(ip),
            Err(_) => dns_names.push(address.clone()),
        }
    }
    let subject = format!("{}/{}", proxy.mesh, proxy.name);
    let spec = LeafSpec { incarnation, dns_names: &dns_names, ips: &ips, ..nameless(&issuer.ca, SERVER, &subject) };
    let signed = issuer.ca.issue(&spec).map_err(|error| with_causes(&error))?;
    Ok(AdminCertificate {
        certificate: signed.cert_pem,
        key: signed.key_pem.expose().to_owned(),
        client_ca: issuer.ca.roots_pem(),
        client_name: ADMIN_CLIENT_NAME.to_owned(),
    })
}

fn issuer(mesh_cas: &MeshCas, snapshot: &Snapshot) -> Result<Arc<AdminIssuer>, String> {
    let key = ResourceKey::global("GlobalSecret", ADMIN_CA);
    let record = snapshot
        .get(&key)
        .ok_or_else(|| format!("GlobalSecret {ADMIN_CA:?} does not exist yet; the leader creates it when it starts"))?;
    if let Some((revision, issuer)) = &mesh_cas.made().admin.issuer
        && *revision == record.revision
    {
        return Ok(issuer.clone());
    }
    let bundle = snapshot.world().secret(&key).ok_or_else(|| "its data is not base64".to_owned());
    let issuer = Arc::new(bundle.and_then(|bundle| read(&bundle)).map_err(|error| {
        format!("GlobalSecret {ADMIN_CA:?} is not usable: {error}; delete it and restart the control plane to create a new one")
    })?);
    mesh_cas.made().admin.issuer = Some((record.revision, issuer.clone()));
    Ok(issuer)
}

fn read(bundle: &[u8]) -> Result<AdminIssuer, String> {
    let ca = CaPair::from_pem(bundle, bundle).map_err(|error| with_causes(&error))?;
    let names = [ADMIN_CLIENT_NAME.to_owned()];
    let spec = LeafSpec { usage: LeafUsage::Client, dns_names: &names, ..nameless(&ca, CLIENT, ADMIN_CLIENT_NAME) };
    let signed = ca.issue(&spec).map_err(|error| with_causes(&error))?;
    let client = AdminClient { certificate: signed.cert_pem, key: signed.key_pem, ca: ca.roots_pem() };
    Ok(AdminIssuer { ca, client: Arc::new(client) })
}

/// A server certificate that is valid as long as the CA.
fn nameless<'a>(ca: &CaPair, purpose: &'a str, subject: &'a str) -> LeafSpec<'a> {
    LeafSpec {
        purpose,
        subject,
        incarnation: 0,
        epoch: 0,
        usage: LeafUsage::Server,
        not_before: ca.not_before(),
        not_after: ca.not_after(),
        uris: &[],
        dns_names: &[],
        ips: &[],
    }
}
