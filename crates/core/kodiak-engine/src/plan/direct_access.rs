//! Instances that a proxy calls by their own addresses (`directAccessServices` of a Dataplane).
//!
//! Without a listener, such a connection would pass through the proxy without mTLS.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Protocol, tags};
use kodiak_xds::{
    input::{Callee, Carried, DirectAccessCluster, OutboundListener, Peer, Tags},
    names,
};

use super::{Cluster, Outbound, Sources};
use crate::{
    class_key::{ClassKey, DirectAccess},
    rules::Rules,
    target::ClusterTarget,
};

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
    let services = names.filter_map(|name| Some((name, from.services.get(name)?)));
    let instances = services.flat_map(|(name, service)| service.addresses().iter().map(move |at| (at, name)));
    // An address of several services has one listener.
    let instances: BTreeMap<&(Arc<str>, u32), &Arc<str>> = instances.collect();
    let listener = |((address, port), service): (&(Arc<str>, u32), &Arc<str>)| OutboundListener {
        mesh: from.view.name.clone(),
        name: names::direct_access_listener(address, *port).into(),
        address: address.to_string(),
        port: *port,
        callee: Callee::Service(Arc::new(Tags::from([(tags::SERVICE.to_owned(), service.to_string())]))),
        cluster: names::DIRECT_ACCESS.into(),
        protocol: Protocol::Tcp,
        carried: Carried::Tcp,
        confs: merged.listener.clone(),
        facts: merged.facts(&key.facts),
        backends: Arc::default(),
        route_names: Arc::default(),
        bind: false,
        shape: key.reach.shape(),
    };
    let instances = instances.into_iter().filter(|((address, port), _)| !direct.is_own(address, *port));
    let outbound = Outbound {
        target: ClusterTarget::DirectAccess.destination(),
        listeners: instances.map(listener).collect(),
        records: Vec::new(),
        cluster_targets: merged.collectors().chain([ClusterTarget::DirectAccess]).collect(),
        backend_refs: BTreeSet::new(),
    };
    (format!("{}:", names::DIRECT_ACCESS).into(), outbound)
}

/// Any identity of the mesh is accepted: the listener does not know which instance is called.
pub(super) fn cluster(key: &ClassKey, from: Sources<'_>) -> Cluster {
    let peer = || {
        Arc::new(Peer {
            tls: key.certificate.source(&[]),
            tls_parameters: key.tls_parameters.clone(),
            ..Peer::default()
        })
    };
    let peer = from.view.calls_with_mtls(&key.certificate).then(peer);
    Cluster::DirectAccess(DirectAccessCluster { mesh: from.view.name.clone(), peer })
}
