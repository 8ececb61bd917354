//! One connected proxy: its own resources, and its snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_identity::{TlsPolicies, accepts};
use kodiak_model::{Cidr, InboundTls, ProxyKey, kinds::dataplane::Dataplane};
use kodiak_policies::{
    Entry,
    mesh_proxy_patch::ProxyPatches,
    passthrough::PassthroughRules,
    target::{Collector, ProxyFacts},
};
use kodiak_rollout::Rollout;
use kodiak_rules::{PolicyIndex, Proxy, Shadow};
use kodiak_xds::{
    admin, build_cluster, build_listener, build_secret, build_secret_as,
    check::Fault,
    collector, dns, dynamic_config, inbound,
    input::{
        self, Admin, ByKind, DnsListener, DnsRecord, DnsServer, DnsTable, DynamicConfig, OutsideTraffic, Passthrough,
        ProbeEndpoint, Probes, TlsParameters, TlsSource, Validation,
    },
    names,
    node::{NodeMetadata, features},
    passthrough, probes, secrets,
};
use kodiak_xds_stream::{Resources, Snapshot, TypeUrl};

use crate::{
    acknowledged::PermissionsToken,
    assemble::{Earlier, MissingSecrets, Parts, assemble, own_fault, with_remover, without_faults},
    cache::{CertificateInput, Group},
    class::Class,
    class_key::{Certificate, transparent},
    classes::ClassId,
    engine::{Issued, UpdateContext},
    entries,
    fallback::ModificationsInForce,
    leaf::{LeafState, ProxyCertificate},
    metrics,
    patched::Origin,
    proxy_facts,
    rules::Rules,
    view::View,
};

/// Port of the admin listener if neither metadata nor Dataplane configure one.
const ADMIN_PORT: u32 = 9901;
/// In faults, stands for a resource where there is no single one.
const SECRETS: &str = "secrets";
const ROLLOUT: &str = "mtls-rollout";

pub(crate) struct EngineProxy {
    pub(crate) metadata: Arc<NodeMetadata>,
    pub(crate) class: Option<ClassId>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) faults: Vec<Fault>,
    /// Token of the mTLS rollout step of the snapshot.
    pub(crate) rollout: Arc<str>,
    /// Permissions and certificates of the snapshot. `None` while nobody waits for their acknowledgement.
    pub(crate) permissions: Option<PermissionsToken>,
    certificate: ProxyCertificate,
    /// Why its certificate, or else the trusted CAs, are not those of the step.
    failure: Option<String>,
    missing_secrets: MissingSecrets,
    /// Nobody can issue its certificate, or the mesh trusts no CA.
    has_no_secrets: bool,
    own: Vec<Group>,
    /// Those of `own` that modifications may change, before them. Empty without modifications.
    generated: Vec<(Origin, Group)>,
    /// DNS records that `own` was built with.
    records: Arc<[DnsRecord]>,
    /// Whether `own` was built for a proxy that lost destinations.
    trimmed: bool,
    /// Rules of its class that `own` was built with.
    rules: Arc<Rules>,
    /// Inputs of the snapshot. `None` if they had faults.
    parts: Option<Parts>,
    last_good: LastGood,
}

/// Last good configuration of a proxy, which stays while its stream is interrupted.
#[derive(Clone, Default)]
pub(crate) struct LastGood {
    /// Modifications of the last configuration without faults. `None` if there was none.
    modifications: Option<ModificationsInForce>,
    published: Option<Arc<Snapshot>>,
}

/// Inputs of a proxy's configuration.
pub(crate) struct Subject<'a> {
    pub(crate) key: ProxyKey,
    pub(crate) view: &'a View,
    pub(crate) dataplane: &'a Proxy,
    pub(crate) policy_index: &'a PolicyIndex,
    pub(crate) class: &'a Class,
    pub(crate) certificate: &'a Certificate,
    /// Facts that its outbound policies need.
    pub(crate) facts: &'a ProxyFacts,
    pub(crate) patches: Option<&'a Arc<ProxyPatches>>,
    pub(crate) trimmed: Option<Trimmed<'a>>,
    /// Permissions and certificates by the current policies, if their acknowledgement is waited for.
    pub(crate) permissions: Option<PermissionsToken>,
}

impl Subject<'_> {
    /// Of each inbound.
    fn tls(&self, shadow: Shadow) -> Vec<ServerTls> {
        let policies = TlsPolicies { index: self.policy_index, shadow };
        let of = |position| {
            let tls = policies.inbound(&self.key.name, position);
            let accept = accepts(&self.view.rollout, self.dataplane, tls.mode);
            ServerTls { accept, parameters: tls.parameters }
        };
        (0..self.dataplane.dataplane.inbounds().len()).map(of).collect()
    }

    /// Where listeners that accept mTLS get their certificate. Callers may have any identity of the mesh.
    fn server_certificate(&self) -> TlsSource {
        self.certificate.source(&[])
    }

    /// For listeners of the proxy itself. `None` while its inbounds accept only plain text.
    pub(crate) fn own_server_certificate(&self) -> Option<TlsSource> {
        let accept = accepts(&self.view.rollout, self.dataplane, None);
        (accept != InboundTls::Plaintext).then(|| self.server_certificate())
    }
}

/// TLS of one inbound.
struct ServerTls {
    accept: InboundTls,
    parameters: TlsParameters,
}

/// Inputs of a proxy that lost destinations, and answers calls to them.
#[derive(Clone, Copy)]
pub(crate) struct Trimmed<'a> {
    /// Of all destinations of the mesh.
    pub(crate) records: &'a Arc<[DnsRecord]>,
    /// Ranges of virtual addresses.
    pub(crate) ranges: &'a Arc<[Cidr]>,
}

/// How much of a proxy is out of date. Each case includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stale {
    /// The resources that it shares with its class.
    ClassResources,
    /// Also the class to which it belongs.
    Membership,
    /// Also the resources that it alone has: inbounds, secrets, the admin listener.
    OwnResources,
}

impl EngineProxy {
    /// `last_good` is of its last stream, if it had faults.
    pub(crate) fn new(metadata: Arc<NodeMetadata>, last_good: LastGood) -> Self {
        Self {
            metadata,
            class: None,
            snapshot: None,
            faults: Vec::new(),
            rollout: Arc::default(),
            permissions: None,
            certificate: ProxyCertificate::default(),
            failure: None,
            missing_secrets: MissingSecrets::default(),
            has_no_secrets: false,
            own: Vec::new(),
            generated: Vec::new(),
            records: Arc::default(),
            trimmed: false,
            rules: Arc::default(),
            parts: None,
            last_good,
        }
    }

    /// For its next stream. `None` if the current state is enough to make its configuration again. Without certificates:
    /// the next proxy with this name may be another one.
    pub(crate) fn last_good(self) -> Option<LastGood> {
        let Self { faults, snapshot, last_good: LastGood { modifications, published }, .. } = self;
        let without_secrets = |snapshot: Arc<Snapshot>| {
            let mut snapshot = Arc::unwrap_or_clone(snapshot);
            snapshot.resources.replace(TypeUrl::Secret, Resources::default());
            Arc::new(snapshot)
        };
        // Before its first update it has what it was given.
        (!faults.is_empty() || snapshot.is_none())
            .then(|| LastGood { modifications, published: published.map(without_secrets) })
    }

    /// Whether its certificate is due for renewal.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.certificate.is_due(now)
    }

    /// Its certificate, for people.
    pub(crate) fn issued(&self, rollout: &Rollout) -> Option<Issued> {
        self.certificate.issued(rollout, self.failure.as_deref())
    }

    /// Returns whether anything changed that is published about it: resources, rollout step, faults, or why its secrets
    /// are not those of the step. Resources with faults do not hold up the others.
    pub(crate) fn update(&mut self, subject: &Subject<'_>, stale: Stale, context: &mut UpdateContext<'_>) -> bool {
        if subject.view.lacks_rollout {
            let text = "the control plane cannot read its record of the mTLS rollout of the mesh: restore it, or delete it if the mesh has reached its target";
            let faults = vec![own_fault(&ROLLOUT.into(), text)];
            let changed = self.faults != faults;
            self.faults = faults;
            return changed;
        }
        let mut faults = Vec::new();
        let trimmed = self.trimmed(subject);
        let records = trimmed.map_or(&subject.class.records, |trimmed| trimmed.records);
        // Compare pointers: the table is long.
        let records_changed = !Arc::ptr_eq(&self.records, records) && self.has_dns(subject);
        let own_changed = records_changed || self.trimmed != trimmed.is_some() || self.passthrough_changed(subject);
        // A proxy with faults is always rebuilt: otherwise faults of its own resources would be lost.
        if stale == Stale::OwnResources || own_changed || !self.faults.is_empty() {
            self.records = records.clone();
            self.trimmed = trimmed.is_some();
            self.rules = subject.class.rules.clone();
            self.own = self.own(subject, context, &mut faults);
        }
        faults.extend(subject.class.faults.values().flatten().cloned());
        let before = self.snapshot.as_ref().zip(self.parts.as_ref());
        let before = before.map(|(snapshot, parts)| (&snapshot.resources, parts));
        let mut resources = assemble(subject.class, &self.own, &self.missing_secrets, before, &mut faults);
        if let Some(patches) = subject.patches {
            faults = faults.iter().map(|fault| with_remover(fault, patches)).collect();
        }
        let mut is_behind = self.certificate.is_step_pending() || subject.view.lacks_trust() || self.has_no_secrets;
        if faults.is_empty() {
            self.last_good.modifications = Some(ModificationsInForce(subject.patches.cloned()));
        } else {
            let LastGood { modifications, published } = &self.last_good;
            let published = published.as_ref().map(|snapshot| &snapshot.resources);
            let earlier =
                Earlier { modifications: modifications.as_ref(), published, missing_secrets: &self.missing_secrets };
            let (sound, has_stale_tls) =
                without_faults(resources, subject.class, &self.own, &self.generated, subject.patches, earlier);
            resources = sound;
            is_behind |= has_stale_tls;
        }
        // A proxy without the certificate or the TLS settings of the step must not acknowledge it.
        let token = if is_behind { &self.rollout } else { &subject.view.token }.clone();
        let permissions = if is_behind { self.permissions } else { subject.permissions };
        let has_faults = !faults.is_empty();
        let failure = self.certificate.failure().or(subject.view.trust_failure.as_deref()).map(str::to_owned);
        let is_reported = self.faults != faults || self.failure != failure;
        self.faults = faults;
        self.failure = failure;
        let equal = self.snapshot.as_ref().is_some_and(|old| old.resources == resources);
        if equal && self.rollout == token && self.permissions == permissions {
            return is_reported;
        }
        // Proxies acknowledge rollout steps and permissions by revision, so new ones need a new revision even if resources
        // are equal.
        let snapshot = Arc::new(Snapshot { revision: context.revision, resources });
        self.last_good.published = Some(snapshot.clone());
        self.snapshot = Some(snapshot);
        self.parts = (!has_faults).then(|| Parts::of(subject.class, &self.own));
        self.rollout = token;
        self.permissions = permissions;
        true
    }

    /// `None` if it has all destinations, or if its connections are not redirected: nothing would answer.
    fn trimmed<'a>(&self, subject: &Subject<'a>) -> Option<Trimmed<'a>> {
        let redirection = self.metadata.redirection(transparent(&subject.dataplane.dataplane))?;
        subject.trimmed.filter(|_| redirection.outbound_port != 0)
    }

    /// Whether rules of its class for connections to addresses outside the mesh changed.
    fn passthrough_changed(&self, subject: &Subject<'_>) -> bool {
        let rules = &subject.class.rules;
        // Compare pointers first: rules change less often than resources.
        !Arc::ptr_eq(&self.rules, rules) && self.rules.for_passthrough() != rules.for_passthrough()
    }

    /// Whether it has a DNS server for the hostnames of the mesh.
    fn has_dns(&self, subject: &Subject<'_>) -> bool {
        self.metadata.dns_server(transparent(&subject.dataplane.dataplane)).is_some()
    }

    fn own(&mut self, subject: &Subject<'_>, context: &mut UpdateContext<'_>, faults: &mut Vec<Fault>) -> Vec<Group> {
        let spec = &subject.dataplane.dataplane;
        let shadow = context.settings.shadow;
        let tls = subject.tls(shadow);
        let accepted: Vec<InboundTls> = tls.iter().map(|tls| tls.accept).collect();
        let entries = entries::of(subject.policy_index, &subject.key.name, &accepted, shadow);
        let clusters = local_clusters(spec, &entries);
        let mut built: Vec<(Origin, Group)> = Vec::new();
        let mut add = |origin, groups: &mut dyn Iterator<Item = Group>| {
            built.extend(groups.map(|group| (origin, group)));
        };
        add(Origin::Inbound, &mut self.inbounds(subject, tls, &entries, &clusters, context).into_iter());
        for (origin, group) in collectors(&entries, &subject.class.rules, context) {
            add(origin, &mut std::iter::once(group));
        }
        add(Origin::Transparent, &mut self.redirection(subject, &accepted, context).into_iter());
        add(Origin::Admin, &mut self.admin(subject, context).into_iter());
        add(Origin::Probe, &mut self.probes(subject, &clusters, context).into_iter());
        for (origin, group) in self.dns_and_metrics(subject, context) {
            add(origin, &mut std::iter::once(group));
        }
        self.generated = if subject.patches.is_some() { built.clone() } else { Vec::new() };
        let mut own = patched(built, subject.patches, context, faults);
        let secrets = self.secrets(subject, context);
        self.has_no_secrets = secrets.is_err();
        match secrets {
            Ok(secrets) => own.extend(secrets),
            Err(fault) => faults.push(fault),
        }
        own
    }

    fn inbounds(
        &self,
        subject: &Subject<'_>,
        tls: Vec<ServerTls>,
        entries: &[Arc<ByKind<Vec<Entry>>>],
        clusters: &[Arc<str>],
        context: &mut UpdateContext<'_>,
    ) -> Vec<Group> {
        let spec = &subject.dataplane.dataplane;
        let shape = self.metadata.shape(transparent(spec));
        let certificate = subject.server_certificate();
        let address = address(spec);
        let facts = |position: usize| {
            let entries = entries[position].iter();
            let confs = entries.flat_map(|(kind, entries)| entries.iter().map(|entry| (*kind, &entry.conf)));
            let needed = proxy_facts::needed(confs);
            let ProxyKey { mesh, name } = &subject.key;
            Arc::new(proxy_facts::of(&needed, mesh, name, subject.dataplane, &self.metadata, &subject.view.zone))
        };
        let served = spec.inbounds().iter().zip(tls).enumerate().filter(|(_, (inbound, _))| inbound.is_served());
        let inputs = served.map(|(position, (inbound, ServerTls { accept, parameters }))| {
            // Without mTLS, an input does not depend on it.
            let (tls, tls_parameters) = match accept {
                InboundTls::Plaintext => <_>::default(),
                InboundTls::Permissive | InboundTls::Strict => (certificate.clone(), parameters),
            };
            input::Inbound {
                mesh: subject.key.mesh.clone(),
                address: inbound.address_or(address).to_owned(),
                port: inbound.port,
                workload_address: inbound.service_address_or(address).to_owned(),
                workload_port: inbound.service_port(),
                cluster: clusters[position].clone(),
                section: inbound.section_name(),
                protocol: inbound.protocol(),
                tags: inbound.tags.clone(),
                accept,
                tls,
                tls_parameters,
                entries: entries[position].clone(),
                facts: facts(position),
                shape,
            }
        });
        let make = |input: &input::Inbound| {
            vec![build_listener(&inbound::listener(input)), build_cluster(&inbound::cluster(input))]
        };
        inputs.map(|input| context.cache.inbounds.get(&input, make)).collect()
    }

    fn redirection(
        &self,
        subject: &Subject<'_>,
        accepted: &[InboundTls],
        context: &mut UpdateContext<'_>,
    ) -> Option<Group> {
        let spec = &subject.dataplane.dataplane;
        let redirect = self.metadata.redirection(transparent(spec))?;
        // A single permissive inbound does not open the ports that are not declared.
        let served = spec.inbounds().iter().zip(accepted).filter(|(inbound, _)| inbound.is_served());
        let mut served = served.map(|(_, accept)| *accept).peekable();
        let is_strict = if served.peek().is_some() {
            served.any(|accept| accept == InboundTls::Strict)
        } else {
            accepts(&subject.view.rollout, subject.dataplane, None) == InboundTls::Strict
        };
        let strict = self.metadata.has(features::STRICT_INBOUND_PORTS) && is_strict;
        let declared = || {
            let ports: BTreeSet<u32> =
                spec.inbounds().iter().filter(|inbound| inbound.is_served()).map(|each| each.port).collect();
            ports.into_iter().collect()
        };
        let merged = subject.class.rules.for_passthrough();
        let input = Passthrough {
            mesh: subject.key.mesh.clone(),
            facts: merged.facts(subject.facts),
            inbound_port: redirect.inbound_port.unwrap_or_default(),
            outbound_port: redirect.outbound_port,
            ipv6: redirect.ipv6 && self.metadata.ipv6_enabled,
            reuse_port: self.metadata.has(features::REUSE_PORT),
            outside: outside(subject, context.settings.shadow),
            inbound_ports: strict.then(declared),
            trimmed: self.trimmed(subject).map(|trimmed| trimmed.ranges.clone()),
            confs: merged.listener,
        };
        Some(context.cache.passthrough.get(&input, |input| {
            let listeners = passthrough::listeners(input);
            listeners.iter().map(build_listener).chain(passthrough::clusters(input).iter().map(build_cluster)).collect()
        }))
    }

    fn admin(&self, subject: &Subject<'_>, context: &mut UpdateContext<'_>) -> Option<Group> {
        let endpoint = self.metadata.admin_endpoint()?;
        let spec = &subject.dataplane.dataplane;
        let input = Admin {
            address: address(spec).to_owned(),
            port: admin_port(&self.metadata, spec),
            endpoint,
            readiness_port: self.metadata.readiness_port,
            certificate: context.identities.admin(&subject.key),
            reuse_port: self.metadata.has(features::REUSE_PORT),
        };
        Some(context.cache.admin.get(&input, |input| {
            admin::listener(input)
                .iter()
                .map(build_listener)
                .chain(admin::clusters(input).iter().map(build_cluster))
                .collect()
        }))
    }

    fn probes(&self, subject: &Subject<'_>, clusters: &[Arc<str>], context: &mut UpdateContext<'_>) -> Option<Group> {
        let spec = &subject.dataplane.dataplane;
        let probes = spec.probes.as_ref().filter(|probes| probes.port != 0 && !self.metadata.probe_proxy)?;
        let endpoint = |probe: &kodiak_model::kinds::dataplane::ProbeEndpoint| {
            let inbound =
                spec.inbounds().iter().position(|inbound| inbound.port == probe.inbound_port && inbound.is_served());
            ProbeEndpoint {
                path: probe.path.clone(),
                inbound_path: probe.inbound_path.clone(),
                inbound_port: probe.inbound_port,
                cluster: inbound.map(|position| clusters[position].clone()),
            }
        };
        let input = Probes {
            address: address(spec).to_owned(),
            port: probes.port,
            endpoints: probes.endpoints.iter().map(endpoint).collect(),
            shape: self.metadata.shape(transparent(spec)),
        };
        Some(context.cache.probes.get(&input, |input| vec![build_listener(&probes::listener(input))]))
    }

    /// DNS names, and settings for metrics: for `kodiak dp`, or for Envoy.
    fn dns_and_metrics(&self, subject: &Subject<'_>, context: &mut UpdateContext<'_>) -> Vec<(Origin, Group)> {
        let spec = &subject.dataplane.dataplane;
        let (mut own, mut documents) = (Vec::new(), BTreeMap::new());
        let table = || DnsTable { records: self.records.clone(), ipv6: self.metadata.ipv6_enabled };
        match self.metadata.dns_server(transparent(spec)) {
            Some(DnsServer::Envoy { port }) => {
                let input = DnsListener { table: table(), port };
                let group = context.cache.dns.get(&input, |input| vec![build_listener(&dns::listener(input))]);
                own.push((Origin::Dns, group));
            }
            Some(DnsServer::Runner { socket: _ }) => {
                let make = |table: &DnsTable| Arc::new(dns::document(table));
                documents.insert(dns::PATH, context.cache.dns_documents.get_shared(&table(), make));
            }
            None => (),
        }
        if let Some(metrics) = metrics::of(&self.metadata, subject, context) {
            own.push((Origin::Metric, metrics.resources));
            documents.insert(kodiak_xds::metrics::PATH, metrics.document);
        }
        if let Some(workdir) = self.metadata.workdir.as_ref().filter(|_| !documents.is_empty()) {
            let input = DynamicConfig { socket: names::dynamic_config_socket(workdir), documents };
            let make = |input: &DynamicConfig| vec![build_listener(&dynamic_config::listener(input))];
            own.push((Origin::Dns, context.cache.dynamic_config.get(&input, make)));
        }
        own
    }

    /// The certificate and the trusted CAs, each if it can be had.
    fn secrets(&mut self, subject: &Subject<'_>, context: &mut UpdateContext<'_>) -> Result<Vec<Group>, Fault> {
        let fault = |text: String| own_fault(&SECRETS.into(), &text);
        let mesh = &subject.key.mesh;
        self.missing_secrets = MissingSecrets::default();
        let state = self.certificate.update(&subject.key, subject.view, subject.dataplane, context);
        let leaf = match state.map_err(fault)? {
            LeafState::None => return Ok(Vec::new()),
            LeafState::Issued(leaf) => Some(leaf),
            LeafState::Missing => None,
        };
        let trusted = match &subject.view.trusted {
            None if !subject.view.lacks_trust() => {
                let text = "cannot issue a certificate: the mesh trusts no CA; check mtls.backends and mtls.enabledBackend of the Mesh, and its MeshTrusts";
                return Err(fault(text.to_owned()));
            }
            trusted => trusted.as_ref(),
        };
        let certificate = leaf.map(|leaf| {
            let input = CertificateInput { mesh: mesh.clone(), proxy: subject.key.name.clone(), version: leaf.version };
            let make = |_: &_| vec![build_secret_as(leaf.version, &secrets::identity(mesh, &leaf.identity))];
            context.cache.certificates.get(&input, make)
        });
        let trust = trusted.map(|trusted| {
            let name = names::validation_secret(mesh).into();
            let any = Validation { name, trusted: trusted.clone(), accepted: Vec::new() };
            let make = |input: &Validation| vec![build_secret(&secrets::validation(input))];
            context.cache.validations.get(&any, make)
        });
        self.missing_secrets = MissingSecrets {
            certificate: certificate.is_none().then(|| names::identity_secret(mesh).into()),
            trust_of: trust.is_none().then(|| mesh.clone()),
        };
        Ok(certificate.into_iter().chain(trust).collect())
    }
}

/// A MeshPassthrough overrides the Mesh.
fn outside(subject: &Subject<'_>, shadow: Shadow) -> OutsideTraffic {
    match entries::passthrough(subject.policy_index, &subject.key.name, shadow) {
        Some(PassthroughRules::All) => OutsideTraffic::Allowed,
        Some(PassthroughRules::None) => OutsideTraffic::RefusedByPolicy,
        Some(PassthroughRules::Matched(matches)) => OutsideTraffic::Matched(matches),
        None if subject.view.passthrough => OutsideTraffic::Allowed,
        None => OutsideTraffic::RefusedByMesh,
    }
}

/// Clusters of the collectors that inbounds and the passthrough listeners reference.
fn collectors(
    entries: &[Arc<ByKind<Vec<Entry>>>],
    rules: &Rules,
    context: &mut UpdateContext<'_>,
) -> Vec<(Origin, Group)> {
    let entries = entries.iter().flat_map(|by_kind| by_kind.iter());
    let confs = entries.filter_map(|(kind, entries)| Some((kodiak_policies::find(kind)?, entries)));
    let used = confs.flat_map(|(policy, entries)| entries.iter().flat_map(move |entry| policy.collectors(&entry.conf)));
    let mut used: BTreeSet<Arc<Collector>> = used.map(Arc::new).collect();
    used.extend(rules.for_passthrough().used_collectors());
    let make = |input: &Collector| vec![build_cluster(&collector::cluster(input))];
    used.iter().map(|input| (Origin::of_collector(&input.name), context.cache.collectors.get(input, make))).collect()
}

/// Groups after the modifications for the proxy, and the resources that these add.
fn patched(
    built: Vec<(Origin, Group)>,
    patches: Option<&Arc<ProxyPatches>>,
    context: &mut UpdateContext<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<Group> {
    let cache = &mut context.cache.patched;
    let mut own: Vec<Group> = built.into_iter().map(|(origin, group)| cache.get(patches, origin, group)).collect();
    if let Some(patches) = patches {
        own.push(cache.added(patches));
        let errors = patches.steps().iter().filter_map(|step| Some((step.at().clone(), step.error()?.to_owned())));
        faults.extend(errors.map(|(at, fault)| Fault::Patch { at, fault }));
    }
    own
}

/// Port at which the control plane reaches the admin interface of a proxy.
pub fn admin_port(metadata: &NodeMetadata, dataplane: &Dataplane) -> u32 {
    let networking = dataplane.networking.as_ref();
    let written = networking.and_then(|networking| networking.admin.as_ref()).map(|admin| admin.port);
    metadata.admin_port.or(written.filter(|port| *port != 0)).unwrap_or(ADMIN_PORT)
}

pub(crate) fn address(dataplane: &Dataplane) -> &str {
    dataplane.networking.as_ref().map_or("", |networking| &networking.address)
}

/// Cluster names of the workloads behind each inbound. Inbounds with the same workload, protocol and policies share a
/// cluster; of those that differ, the first has the usual name.
fn local_clusters(spec: &Dataplane, entries: &[Arc<ByKind<Vec<Entry>>>]) -> Vec<Arc<str>> {
    let address = address(spec);
    let mut taken = BTreeMap::new();
    let mut names = Vec::new();
    for (inbound, entries) in spec.inbounds().iter().zip(entries) {
        let workload = (inbound.service_address_or(address), inbound.protocol(), entries);
        let port = inbound.service_port();
        let name = if *taken.entry(port).or_insert(workload) == workload {
            names::local_cluster(port)
        } else {
            names::local_cluster_of(port, &inbound.section_name())
        };
        names.push(name.into());
    }
    names
}
