//! Configuration of proxies that are not connected: for dry runs, diffs, and files that are not applied yet.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{Cancellation, ProxyKey, kinds::mesh_external_service::Source};
use kodiak_services::{
    hostnames::ServiceKey,
    service_addresses::{AddressAllocator, Ranges},
    tag_services::TagServices,
    vips::Vips,
};
use kodiak_xds::{
    input::{AdminCertificate, Identity},
    node::NodeMetadata,
};
use kodiak_xds_stream::{Snapshot, Version};

use crate::{
    Engine, EngineChange, EngineSettings, Identities, Leaf, LeafRequest, Outcome, Updated, identity::ADMIN_CLIENT_NAME,
};

/// Offline configuration does not depend on the time.
const TIME: Timestamp = Timestamp::UNIX_EPOCH;
/// In place of certificates and keys.
const PLACEHOLDER: &str = "[placeholder]";
const NO_ADDRESS: &str = "no virtual address is left for the services of the mesh";

/// Proxies whose configuration changed, each with its faults.
pub type AffectedProxies = BTreeMap<ProxyKey, Vec<String>>;

/// A mesh without connections. Services without a virtual address get one as the control plane would assign it.
/// Certificates are placeholders. Its answers are incomplete once its settings' cancellation is cancelled: check that.
pub struct OfflineMesh {
    engine: Engine,
    mesh: Arc<str>,
    tags: TagServices,
    vips: Arc<Vips>,
    allocator: AddressAllocator,
    identities: Arc<dyn Identities>,
    cancellation: Cancellation,
}

impl OfflineMesh {
    /// A mesh with the resources of `changes` alone, without certificates and Secrets.
    pub fn new(
        settings: EngineSettings,
        mesh: &str,
        changes: impl IntoIterator<Item = EngineChange>,
    ) -> Result<Self, Vec<String>> {
        Self::with_identities(settings, mesh, changes, Arc::new(Placeholders))
    }

    /// Like [`new`](Self::new), with the certificates and Secrets of `identities`.
    pub fn with_identities(
        settings: EngineSettings,
        mesh: &str,
        changes: impl IntoIterator<Item = EngineChange>,
        identities: Arc<dyn Identities>,
    ) -> Result<Self, Vec<String>> {
        let mut offline = Self {
            identities,
            cancellation: settings.cancellation.clone(),
            engine: Engine::new(settings),
            mesh: mesh.into(),
            tags: TagServices::default(),
            vips: Arc::default(),
            allocator: AddressAllocator::new(Ranges::default()),
        };
        offline.change(changes)?;
        Ok(offline)
    }

    /// Configuration of a proxy, or why it failed validation.
    pub fn connect(&mut self, proxy: &ProxyKey, metadata: Arc<NodeMetadata>) -> Result<Arc<Snapshot>, Vec<String>> {
        match self.connect_all([(proxy.clone(), metadata)]).remove(proxy) {
            Some(faults) if !faults.is_empty() => Err(faults),
            Some(_) | None => self.snapshot(proxy).ok_or_else(|| missing(proxy)),
        }
    }

    /// Proxies with a configuration, each with its faults.
    pub fn connect_all(&mut self, proxies: impl IntoIterator<Item = (ProxyKey, Arc<NodeMetadata>)>) -> AffectedProxies {
        let connected = proxies.into_iter().map(|(key, metadata)| EngineChange::Connected { key, metadata });
        affected(self.engine.apply(connected, &*self.identities, TIME)).collect()
    }

    /// Replaces the source of certificates and Secrets. What changed in it is a change, too: [`EngineChange::Secret`].
    pub fn set_identities(&mut self, identities: Arc<dyn Identities>) {
        self.identities = identities;
    }

    /// Applies changes. Returns the proxies whose configuration changed.
    pub fn change(&mut self, changes: impl IntoIterator<Item = EngineChange>) -> Result<AffectedProxies, Vec<String>> {
        let mut changes: Vec<EngineChange> = changes.into_iter().collect();
        self.assign_addresses(&mut changes)?;
        changes.extend(self.assign_vips(&changes)?);
        let mut all = AffectedProxies::new();
        // Offline, proxies acknowledge at once, so clients get the destinations that follow.
        while !changes.is_empty() {
            let outcome = self.engine.apply(changes, &*self.identities, TIME);
            changes = outcome.proxies.iter().filter_map(Updated::acknowledgement).collect();
            all.extend(affected(outcome));
            // The updates of a cancelled engine have no result, so nothing would ever be acknowledged.
            if self.cancellation.check().is_err() {
                break;
            }
        }
        Ok(all)
    }

    /// Assigns addresses to destinations that have none.
    fn assign_addresses(&mut self, changes: &mut [EngineChange]) -> Result<(), Vec<String>> {
        let mut without = Vec::new();
        for change in changes {
            if let EngineChange::Destination { mesh, kind, name, destination: Some(destination) } = change {
                let key = ServiceKey { kind: *kind, mesh: mesh.clone(), name: name.clone() };
                // Addresses are never released here: the reconciler of the control plane does that.
                self.allocator.set_destination(&key, [], Some(destination.vips.iter().copied().collect()));
                if destination.vips.is_empty() {
                    without.push((key, destination));
                }
            }
        }
        for (key, destination) in without {
            let vip = self.allocator.give(&key).ok_or_else(|| vec![NO_ADDRESS.to_owned()])?;
            Arc::make_mut(destination).vips.push(vip);
        }
        Ok(())
    }

    /// Assigns addresses to `kuma.io/service` names that have none.
    fn assign_vips(&mut self, changes: &[EngineChange]) -> Result<Option<EngineChange>, Vec<String>> {
        let mut stored = None;
        let mut renamed = false;
        for change in changes {
            match change {
                EngineChange::Vips { mesh, vips: Some(vips) } if *mesh == self.mesh => stored = Some(vips),
                EngineChange::Dataplane { key, dataplane } if key.mesh == self.mesh => {
                    renamed |= self.tags.set(&key.name, dataplane.as_ref().map(|proxy| &*proxy.dataplane));
                }
                _ => (),
            }
        }
        if let Some(stored) = stored {
            self.allocator.set_vips(&self.mesh, Some(&self.vips), Some(stored));
            self.vips = stored.clone();
        }
        if stored.is_none() && !renamed {
            return Ok(None);
        }
        let assigned = self.allocator.assign(&self.mesh, &self.vips, self.tags.names(), TIME, SignedDuration::MAX);
        if !assigned.without_address.is_empty() {
            return Err(vec![NO_ADDRESS.to_owned()]);
        }
        self.allocator.set_vips(&self.mesh, Some(&self.vips), Some(&assigned.vips));
        self.vips = Arc::new(assigned.vips);
        Ok(Some(EngineChange::Vips { mesh: self.mesh.clone(), vips: Some(self.vips.clone()) }))
    }

    /// The last good configuration of a connected proxy.
    pub fn snapshot(&self, proxy: &ProxyKey) -> Option<Arc<Snapshot>> {
        self.engine.snapshot(proxy)
    }
}

/// Configuration of `proxy` in a mesh with the resources of `changes` alone, or why it failed validation.
pub fn config(
    settings: EngineSettings,
    changes: impl IntoIterator<Item = EngineChange>,
    proxy: &ProxyKey,
    metadata: Arc<NodeMetadata>,
) -> Result<Arc<Snapshot>, Vec<String>> {
    OfflineMesh::new(settings, &proxy.mesh, changes)?.connect(proxy, metadata)
}

fn affected(outcome: Outcome) -> impl Iterator<Item = (ProxyKey, Vec<String>)> {
    outcome.proxies.into_iter().map(|updated| (updated.key, updated.faults))
}

fn missing(proxy: &ProxyKey) -> Vec<String> {
    vec![format!("Dataplane {:?} not found in mesh {:?}", proxy.name, proxy.mesh)]
}

/// Issues no certificates: its configuration is for people, not for Envoy.
pub struct Placeholders;

impl Identities for Placeholders {
    fn leaf(&self, _: &LeafRequest, _: Timestamp) -> Result<Arc<Leaf>, String> {
        Ok(Arc::new(Leaf {
            serial: PLACEHOLDER.into(),
            spiffe_id: PLACEHOLDER.into(),
            identity: Identity { certificate: PLACEHOLDER.into(), key: PLACEHOLDER.into() },
            version: Version(0),
            not_after: Timestamp::MAX,
            renew_at: Timestamp::MAX,
        }))
    }

    fn roots(&self, _: &str, _: &kodiak_rollout::AppliedBackend) -> Result<Arc<str>, String> {
        Ok(PLACEHOLDER.into())
    }

    /// Text that passes for PEM: without one, a MeshExternalService with TLS would have no endpoints.
    fn source(&self, _: &str, _: &Source) -> Result<Arc<str>, String> {
        let block = |label: &str| format!("-----BEGIN {label}-----\n{PLACEHOLDER}\n-----END {label}-----\n");
        Ok([block("CERTIFICATE"), block("PRIVATE KEY")].concat().into())
    }

    fn client_pair(&self, _: &kodiak_model::Kri, pair: crate::ClientPair) -> Result<crate::ClientPair, String> {
        Ok(pair)
    }

    fn admin(&self, _: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        Some(Arc::new(AdminCertificate {
            certificate: PLACEHOLDER.to_owned(),
            key: PLACEHOLDER.to_owned(),
            client_ca: PLACEHOLDER.to_owned(),
            client_name: ADMIN_CLIENT_NAME.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use kodiak_xds_stream::TypeUrl;
    use serde_json::{Value, json};

    use super::*;
    use kodiak_rules::Proxy;

    use crate::redacted;

    fn dataplane(name: &str, spec: &Value) -> EngineChange {
        let dataplane = Arc::new(serde_json::from_value(spec.clone()).unwrap());
        let proxy =
            Proxy { mesh: "default".into(), name: name.into(), labels: Arc::default(), dataplane, admission: None };
        EngineChange::Dataplane { key: ProxyKey::new("default", name), dataplane: Some(Arc::new(proxy)) }
    }

    fn mesh(spec: &Value) -> EngineChange {
        let mesh = serde_json::from_value(spec.clone()).unwrap();
        EngineChange::Mesh { name: "default".into(), mesh: Some(Arc::new(mesh)), reachability: None }
    }

    fn web() -> EngineChange {
        let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
        let redirect = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
        let networking = json!({ "address": "10.0.0.1", "inbound": inbound, "transparentProxying": redirect });
        dataplane("web-1", &json!({ "networking": networking }))
    }

    fn of(changes: Vec<EngineChange>) -> Result<Arc<Snapshot>, Vec<String>> {
        config(
            EngineSettings { zone: "default".into(), ..EngineSettings::default() },
            changes,
            &ProxyKey::new("default", "web-1"),
            Arc::default(),
        )
    }

    #[test]
    fn services_without_a_stored_virtual_address_get_one() {
        let called = |changes: Vec<EngineChange>| {
            let snapshot = of(changes).unwrap();
            let names = snapshot.of(TypeUrl::Listener).keys().map(ToString::to_string);
            names.filter(|name| name.starts_with("outbound:240")).collect::<Vec<_>>()
        };
        assert_eq!(called(vec![mesh(&json!({})), web()]), ["outbound:240.0.0.0:80"]);
        let known = json!({ "next": 1, "services": { "other": { "address": "240.0.0.0" } } });
        let known: Vips = serde_json::from_value(known).unwrap();
        let known = EngineChange::Vips { mesh: "default".into(), vips: Some(Arc::new(known)) };
        assert_eq!(called(vec![mesh(&json!({})), known, web()]), ["outbound:240.0.0.1:80"]);
    }

    #[test]
    fn keys_are_redacted_and_certificates_are_placeholders() {
        let backends = json!([{ "name": "ca", "type": "builtin" }]);
        let mesh = mesh(&json!({ "mtls": { "enabledBackend": "ca", "backends": backends } }));
        let shown = redacted::config(&of(vec![mesh, web()]).unwrap()).unwrap();
        let secrets = &shown[TypeUrl::Secret.as_str()];
        let identity = &secrets["identity_cert:secret:default"]["tlsCertificate"];
        assert_eq!(identity["privateKey"], json!({ "inlineString": "[redacted]" }));
        assert_eq!(identity["certificateChain"], json!({ "inlineBytes": "W3BsYWNlaG9sZGVyXQ==" }));
    }

    #[test]
    fn change_returns_affected_proxies_with_their_faults() {
        let settings = EngineSettings { zone: "default".into(), ..EngineSettings::default() };
        let api = |port: u32| {
            let inbound = json!([{ "port": port, "tags": { "kuma.io/service": "api" } }]);
            dataplane("api-1", &json!({ "networking": { "address": "10.0.0.2", "inbound": inbound } }))
        };
        let mut world = OfflineMesh::new(settings, "default", [mesh(&json!({})), web(), api(80)]).unwrap();
        let [web_1, api_1] = ["web-1", "api-1"].map(|name| ProxyKey::new("default", name));
        let connected = world.connect_all([&web_1, &api_1].map(|proxy| (proxy.clone(), Arc::default())));
        assert_eq!(connected, [(api_1.clone(), vec![]), (web_1.clone(), vec![])].into());
        assert_eq!(world.change([api(80)]).unwrap(), AffectedProxies::new(), "the Dataplane is unchanged");
        assert_eq!(world.change([api(81)]).unwrap().len(), 2, "the server and its client");

        // Both inbound listeners would bind one address.
        let inbound = json!([{ "port": 81, "tags": {} }, { "port": 81, "tags": {} }]);
        let twice = dataplane("api-1", &json!({ "networking": { "address": "10.0.0.2", "inbound": inbound } }));
        let affected = world.change([twice]).unwrap();
        assert!(affected[&api_1].iter().any(|fault| fault.contains("10.0.0.2:81")), "{affected:?}");
        assert_eq!(world.snapshot(&api_1).unwrap().of(TypeUrl::Listener).len(), 1);
    }

    #[test]
    fn missing_resources_and_faults_are_errors() {
        assert_eq!(of(vec![mesh(&json!({}))]).unwrap_err(), missing(&ProxyKey::new("default", "web-1")));
        assert_eq!(of(vec![web()]).unwrap_err(), missing(&ProxyKey::new("default", "web-1")));
        let inbound = json!([{ "port": 80, "tags": {} }, { "port": 80, "tags": {} }]);
        let twice = dataplane("web-1", &json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } }));
        let faults = of(vec![mesh(&json!({})), twice]).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains("10.0.0.1:80")), "{faults:?}");
    }
}
