//! Certificates for Envoy's admin interface: one for each proxy, and one for the control planes that ask it.
//!
//! They live as long as their authority, so they change only with it or with the address of the proxy.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kodiak_catalog::{ADMIN_CA, secret_data, spec_of};
use kodiak_crypto::{CaPair, LeafSpec, LeafUsage, PrivatePem};
use kodiak_engine::ADMIN_CLIENT_NAME;
use kodiak_model::{ProxyKey, ResourceKey, kinds::dataplane::Dataplane};
use kodiak_store::{Record, Snapshot};
use kodiak_xds::input::AdminCertificate;

use crate::{Authorities, sweep::Sweep, told};

/// Keeps the keys of these certificates apart from each other: no proxy can be taken for a control plane.
const SERVER: &str = "admin server";
const CLIENT: &str = "admin client";

/// What a control plane needs to ask a proxy for its admin interface. All of it is PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminClient {
    pub certificate: String,
    pub key: PrivatePem,
    /// The authority of the proxies' certificates.
    pub ca: String,
}

#[derive(Default)]
pub(crate) struct Cache {
    authority: Option<(u64, Arc<AdminAuthority>)>,
    proxies: BTreeMap<ProxyKey, Cached>,
    sweep: Sweep,
}

impl Cache {
    /// Keeps it, and lets go of proxies that are gone when there are many.
    fn keep(&mut self, snapshot: &Snapshot, proxy: ProxyKey, cached: Cached) {
        if self.sweep.is_due(self.proxies.len()) {
            self.proxies.retain(|proxy, _| snapshot.get(&proxy.dataplane()).is_some());
            self.sweep.done(self.proxies.len());
        }
        self.proxies.insert(proxy, cached);
    }
}

struct AdminAuthority {
    ca: CaPair,
    client: Arc<AdminClient>,
}

struct Cached {
    authority: Arc<AdminAuthority>,
    incarnation: i64,
    addresses: Vec<String>,
    /// `None` when none can be made, which is said once.
    certificate: Option<Arc<AdminCertificate>>,
}

pub(crate) fn client(authorities: &Authorities, snapshot: &Snapshot) -> Result<Arc<AdminClient>, String> {
    Ok(authority(authorities, snapshot)?.client.clone())
}

pub(crate) fn of_proxy(
    authorities: &Authorities,
    snapshot: &Snapshot,
    proxy: &ProxyKey,
) -> Option<Arc<AdminCertificate>> {
    let dataplane = snapshot.get(&proxy.dataplane());
    let incarnation = dataplane.map_or(0, |dataplane| dataplane.created.as_microsecond());
    let addresses = dataplane.and_then(addresses);
    let authority = authority(authorities, snapshot).inspect_err(|error| tracing::debug!(%proxy, error));
    let (Some(addresses), Ok(authority)) = (addresses, authority) else {
        authorities.made().admin.proxies.remove(proxy);
        return None;
    };
    if let Some(cached) = authorities.made().admin.proxies.get(proxy)
        && Arc::ptr_eq(&cached.authority, &authority)
        && cached.incarnation == incarnation
        && cached.addresses == addresses
    {
        return cached.certificate.clone();
    }
    let certificate = match make(&authority, proxy, incarnation, &addresses) {
        Ok(certificate) => Some(Arc::new(certificate)),
        Err(error) => {
            tracing::warn!(%proxy, error, "The admin interface of a proxy cannot be asked.");
            None
        }
    };
    let cached = Cached { authority, incarnation, addresses, certificate: certificate.clone() };
    authorities.made().admin.keep(snapshot, proxy.clone(), cached);
    certificate
}

/// Where the control plane reaches the proxy, and where the proxy listens.
fn addresses(dataplane: &Record) -> Option<Vec<String>> {
    let networking = spec_of::<Dataplane>(dataplane)?.networking?;
    let addresses = [networking.address, networking.advertised_address];
    let addresses: Vec<String> = addresses.into_iter().filter(|address| !address.is_empty()).collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn make(
    authority: &AdminAuthority,
    proxy: &ProxyKey,
    incarnation: i64,
    addresses: &[String],
) -> Result<AdminCertificate, String> {
    if let Some(taken) = addresses.iter().find(|address| address.eq_ignore_ascii_case(ADMIN_CLIENT_NAME)) {
        return Err(format!("its address {taken:?} is the name of the control plane; use another address"));
    }
    let (mut dns_names, mut ips) = (Vec::new(), Vec::new());
    for address in addresses {
        match address.parse::<IpAddr>() {
            Ok(ip) => ips.push(ip),
            Err(_) => dns_names.push(address.clone()),
        }
    }
    let subject = format!("{}/{}", proxy.mesh, proxy.name);
    let spec = LeafSpec { incarnation, dns_names: &dns_names, ips: &ips, ..nameless(&authority.ca, SERVER, &subject) };
    let issued = authority.ca.issue(&spec).map_err(|error| told(&error))?;
    Ok(AdminCertificate {
        certificate: issued.cert_pem,
        key: issued.key_pem.expose().to_owned(),
        client_ca: authority.ca.roots_pem(),
        client_name: ADMIN_CLIENT_NAME.to_owned(),
    })
}

fn authority(authorities: &Authorities, snapshot: &Snapshot) -> Result<Arc<AdminAuthority>, String> {
    let record = snapshot.get(&ResourceKey::global("GlobalSecret", ADMIN_CA));
    let record = record.ok_or_else(|| {
        format!("there is no GlobalSecret {ADMIN_CA:?} yet; the leading control plane makes it when it starts")
    })?;
    if let Some((revision, authority)) = &authorities.made().admin.authority
        && *revision == record.revision
    {
        return Ok(authority.clone());
    }
    let authority = Arc::new(read(record).map_err(|error| {
        format!("the GlobalSecret {ADMIN_CA:?} cannot be used: {error}; delete it and start the control plane again to get a new one")
    })?);
    authorities.made().admin.authority = Some((record.revision, authority.clone()));
    Ok(authority)
}

fn read(record: &Record) -> Result<AdminAuthority, String> {
    let bundle = secret_data(record).ok_or("its data is not base64")?;
    let ca = CaPair::from_pem(&bundle, &bundle).map_err(|error| told(&error))?;
    let names = [ADMIN_CLIENT_NAME.to_owned()];
    let spec = LeafSpec { usage: LeafUsage::Client, dns_names: &names, ..nameless(&ca, CLIENT, ADMIN_CLIENT_NAME) };
    let issued = ca.issue(&spec).map_err(|error| told(&error))?;
    let client = AdminClient { certificate: issued.cert_pem, key: issued.key_pem, ca: ca.roots_pem() };
    Ok(AdminAuthority { ca, client: Arc::new(client) })
}

/// A server that lives as long as the CA.
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
