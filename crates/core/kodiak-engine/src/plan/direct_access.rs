//! Instances that a proxy calls by their own addresses (`directAccessServices` of a Dataplane).
//!
//! Without a listener, such a connection would pass through the proxy without mTLS.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::ServerAccess;
use kodiak_model::{Protocol, tags};
use kodiak_xds::{
    input::{Callee, Carried, DirectAccess as Access, DirectAccessCluster, OutboundListener, Peer, Tags},
    names,
};

use super::{Cluster, Outbound, Sources};
use crate::{
    class_key::{ClassKey, DirectAccess},
    rules::Rules,
    target::ClusterTarget,
};

/// Instance at one address.
#[derive(Clone, Copy)]
struct Instance<'a> {
    service: &'a Arc<str>,
    access: ServerAccess,
}

/// Listeners at the addresses of all instances, and their key among the outbounds.
pub(super) fn outbound(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    direct: &DirectAccess,
) -> (Arc<str>, Outbound) {
    // Policies for a service do not apply: its instances may belong to several.
    let merged = rules.for_passthrough();
    let names = from.services.names().filter(|name| direct.includes(name));
    // An address of several services, or of several Dataplanes, has one listener.
    let mut instances: BTreeMap<(&Arc<str>, u32), Instance<'_>> = BTreeMap::new();
    for (name, service) in names.filter_map(|name| Some((name, from.services.get(name)?))) {
        let irregular = super::accesses(from, service);
        for (_, address) in service.addresses() {
            let access = irregular.get(&address).copied().unwrap_or(ServerAccess::Regular);
            let instance = instances.entry(address).or_insert(Instance { service: name, access });
            instance.service = name;
            instance.access = instance.access.min(access);
        }
    }
    let mtls = from.view.calls_with_mtls(&key.certificate);
    // A client without mTLS makes no difference between servers.
    let target = |access| ClusterTarget::DirectAccess(if mtls { access } else { ServerAccess::Regular });
    let listener =
        |((address, port), Instance { service, access }): ((&Arc<str>, u32), Instance<'_>)| OutboundListener {
            mesh: from.view.name.clone(),
            name: names::direct_access_listener(address, port).into(),
            address: address.to_string(),
            port,
            callee: Callee::Service(Arc::new(Tags::from([(tags::SERVICE.to_owned(), service.to_string())]))),
            cluster: target(access).cluster_name(from.view.naming),
            protocol: Protocol::Tcp,
            carried: Carried::Tcp,
            confs: merged.listener.clone(),
            facts: merged.facts(&key.facts),
            backends: Arc::default(),
            route_names: Arc::default(),
            bind: false,
            shape: key.reach.shape(),
        };
    let regular = ClusterTarget::DirectAccess(ServerAccess::Regular);
    instances.retain(|(address, port), _| !direct.is_own(address, *port));
    let targets: BTreeSet<ClusterTarget> =
        instances.values().map(|each| target(each.access)).chain([regular.clone()]).collect();
    let outbound = Outbound {
        target: regular.destination(),
        listeners: instances.into_iter().map(listener).collect(),
        records: Vec::new(),
        cluster_targets: merged.collectors().chain(targets).collect(),
        backend_refs: BTreeSet::new(),
        trimmed: BTreeSet::new(),
    };
    (format!("{}:", names::DIRECT_ACCESS).into(), outbound)
}

/// Instances that are reached like this. Any identity of the mesh is accepted: the listener does not know which instance is
/// called. One without a certificate in a mesh that refuses plain text has a cluster without endpoints: without a listener,
/// the connection would pass through in plain text.
pub(super) fn cluster(key: &ClassKey, from: Sources<'_>, server: ServerAccess) -> Cluster {
    let peer =
        || Peer { tls: key.certificate.source(&[]), tls_parameters: key.tls_parameters.clone(), ..Peer::default() };
    let (name, access) = match server {
        ServerAccess::Closed => (names::DIRECT_ACCESS_CLOSED, Access::Closed),
        ServerAccess::Plaintext => (names::DIRECT_ACCESS_PLAINTEXT, Access::Plaintext),
        ServerAccess::Regular if from.view.calls_with_mtls(&key.certificate) => {
            (names::DIRECT_ACCESS, Access::Mtls(Arc::new(peer())))
        }
        ServerAccess::Regular if from.view.is_cut_off(&key.certificate) => (names::DIRECT_ACCESS, Access::Closed),
        ServerAccess::Regular => (names::DIRECT_ACCESS, Access::Plaintext),
    };
    Cluster::DirectAccess(DirectAccessCluster { mesh: from.view.name.clone(), name, access })
}
