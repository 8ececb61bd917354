//! Admission of ADS streams: who may connect, and registration of the Dataplane that a proxy provides.

use std::sync::Arc;

use kodiak_ads::{Closing, Credential, Hello, Session};
use kodiak_catalog::{Author, Refusal, kept_labels};
use kodiak_envoy::{envoy::config::core::v3::Node, google::protobuf::value::Kind};
use kodiak_listen::{LogThrottle, printable};
use kodiak_model::{ProxyKey, subscription::Subscription};
use kodiak_store::Snapshot;
use kodiak_xds::node::{NodeMetadata, ProxyType};
use kodiak_xds_stream::TypeUrl;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    Registry,
    credential::{self, VerifiedToken},
    dataplane::{self, EffectiveDataplane, ProvidedDataplane},
    insights::{self, Observation},
    readiness::Registration,
    sessions::{Push, Reporter, Rollout, Stream, TypeStatus},
    stored,
};

/// Kuma's words, by which its clients know that the Dataplane of the proxy is invalid.
const NOT_REGISTERED: &str = "could not register proxy passed in kuma-dp run";

/// By the code of the refusal: a flood of one kind hides no other.
static REFUSALS: [LogThrottle; 17] = [const { LogThrottle::new() }; 17];

const PROXY_TYPE: &str = "dataplane.proxyType";

impl Registry {
    pub(crate) async fn admit(&self, hello: Hello) -> Result<Session, Closing> {
        let admitted = self.try_admit(hello).await;
        if let Err(refused) = &admitted {
            self.refused(refused);
        }
        admitted
    }

    pub(crate) fn refused(&self, refused: &Closing) {
        let throttle = &REFUSALS[usize::from(refused.code).min(REFUSALS.len() - 1)];
        if let Some(suppressed) = throttle.admit() {
            let reason = printable(&refused.message);
            tracing::info!(code = refused.code, reason, suppressed, "xDS stream refused");
        }
        if let Some(observer) = &self.0.settings.observer {
            observer.refused();
        }
    }

    async fn try_admit(&self, hello: Hello) -> Result<Session, Closing> {
        if self.is_stopping() {
            return Err(closing(Closing::UNAVAILABLE, "this control plane is stopping"));
        }
        let key = proxy_of(&hello.node)?;
        let proof = self.identify(&key, &hello.credential)?;
        let admitted = self.admit_identified(&key, &hello, &proof).await;
        if admitted.is_err() {
            self.0.registrations.refused(&key);
        }
        admitted
    }

    async fn admit_identified(&self, key: &ProxyKey, hello: &Hello, proof: &VerifiedToken) -> Result<Session, Closing> {
        let metadata = metadata_of(&hello.node)?;
        let _connecting = self.0.registrations.connecting().await;
        let from_metadata = metadata.resource.is_some();
        match metadata.resource.as_deref() {
            Some(text) => self.register(key, text, proof).await?,
            None => self.check(key, proof, None)?,
        }
        let session = self.open(key.clone(), hello, metadata, proof, from_metadata);
        // Its token may have been revoked meanwhile, when there was no stream yet to close.
        self.recheck_proxy(key);
        Ok(session)
    }

    /// Stores the Dataplane that the proxy provides. Everything is decided on the record that is replaced: when that changes
    /// meanwhile, all is decided again.
    async fn register(&self, key: &ProxyKey, text: &str, proof: &VerifiedToken) -> Result<(), Closing> {
        let store = self.0.catalog.store();
        let author = Author::Proxy(proof.admission());
        let registration = self.0.readiness.registration(key);
        loop {
            let snapshot = store.snapshot();
            let provided = self.check_provided(&snapshot, key, proof, text)?;
            let is_new = snapshot.get(&key.dataplane()).is_none();
            if is_new {
                self.0.registrations.begin(key);
            }
            let document = provided_document(&snapshot, key, provided, &registration);
            let put = self.0.catalog.put_on(&snapshot, dataplane::target(key), document, &author).await;
            if put.is_err() && is_new {
                // Also after a conflict: somebody else has stored one, and that is not this proxy's to replace.
                self.0.registrations.abandon(key, self.0.sessions.is_connected(key));
            }
            match put {
                Ok(_) => break,
                Err(Refusal::Conflict(_)) => (),
                Err(refusal) => return Err(not_registered(&refusal)),
            }
        }
        registration.stored(store.snapshot().revision());
        Ok(())
    }

    /// Verifies the token for the name of the proxy, before anything else that it sent is read.
    pub(crate) fn identify(&self, key: &ProxyKey, credential: &Credential) -> Result<VerifiedToken, Closing> {
        if stored::mesh(&self.0.catalog.store().snapshot(), &key.mesh).is_none() {
            return Err(closing(Closing::UNAUTHENTICATED, format!("mesh: mesh {:?} does not exist", key.mesh)));
        }
        let proof = credential::verify(&self.0.catalog, &self.0.settings, key, credential);
        proof.map_err(|reason| closing(Closing::UNAUTHENTICATED, reason))
    }

    /// The token must be valid for the Dataplane that will be stored.
    pub(crate) fn check(&self, key: &ProxyKey, proof: &VerifiedToken, resource: Option<&str>) -> Result<(), Closing> {
        self.check_on(&self.0.catalog.store().snapshot(), key, proof, resource)
    }

    /// The same against `snapshot`. A request changes nothing of a proxy before this has admitted it.
    pub(crate) fn check_on(
        &self,
        snapshot: &Snapshot,
        key: &ProxyKey,
        proof: &VerifiedToken,
        resource: Option<&str>,
    ) -> Result<(), Closing> {
        match resource {
            Some(text) => self.check_provided(snapshot, key, proof, text).map(drop),
            None => Self::check_stored(snapshot, key, proof),
        }
    }

    fn check_stored(snapshot: &Snapshot, key: &ProxyKey, proof: &VerifiedToken) -> Result<(), Closing> {
        let known = stored::dataplane(snapshot, key).ok_or_else(|| {
            denied(format!(
                "resource {:?} not found; create a Dataplane in Kuma CP first or pass it as an argument to kuma-dp",
                key.node_id()
            ))
        })?;
        proof.check(key, &known).map_err(denied)?;
        // Its certificate may follow from labels that a user has changed.
        for labels in kept_labels(snapshot, key) {
            let before = EffectiveDataplane { labels: (*labels).clone(), spec: known.spec.clone() };
            proof.check(key, &before).map_err(|reason| {
                let reason = format!(
                    "{reason}; the token must be valid for the labels before, too, until the mesh has acknowledged the change of the SPIFFE ID: connect again"
                );
                closing(Closing::UNAVAILABLE, reason)
            })?;
        }
        Ok(())
    }

    fn check_provided(
        &self,
        snapshot: &Snapshot,
        key: &ProxyKey,
        proof: &VerifiedToken,
        text: &str,
    ) -> Result<ProvidedDataplane, Closing> {
        let invalid = |reason: String| closing(Closing::INVALID_ARGUMENT, format!("{NOT_REGISTERED}: {reason}"));
        let mesh = stored::mesh(snapshot, &key.mesh).unwrap_or_default();
        let provided = dataplane::provided(&self.0.catalog, &mesh, key, text).map_err(invalid)?;
        proof.check(key, &provided.effective).map_err(denied)?;
        // A proxy cannot replace another one by taking its name.
        if let Some(known) = stored::dataplane(snapshot, key).filter(|_| !self.may_be_replaced(key)) {
            proof.check(key, &known).map_err(|reason| {
                denied(format!(
                    "{reason}; the token must be valid for the stored Dataplane too, because it would be replaced"
                ))
            })?;
        }
        Ok(provided)
    }

    /// A proxy that provided its Dataplane and disconnected may come back with a different one.
    fn may_be_replaced(&self, key: &ProxyKey) -> bool {
        self.0.registrations.is_provided(key) && !self.0.sessions.is_connected(key)
    }

    fn open(
        &self,
        key: ProxyKey,
        hello: &Hello,
        metadata: NodeMetadata,
        proof: &VerifiedToken,
        from_metadata: bool,
    ) -> Session {
        let now = self.now();
        let id = self.0.sessions.next_id();
        let (snapshots, snapshots_of_session) = watch::channel(None);
        let (closing, closing_of_session) = watch::channel(None);
        let version = insights::version(&metadata.versions);
        let subscription = Subscription {
            id: Uuid::new_v4().to_string(),
            control_plane_instance_id: self.0.settings.instance_id.clone(),
            connect_time: Some(now.to_string()),
            version: version.clone(),
            ..Subscription::default()
        };
        let node = hello.node.metadata.as_ref().and_then(insights::for_insight);
        let types = TypeUrl::ALL.map(TypeStatus::new);
        let mut observation = Observation::new(key.clone(), subscription, node);
        observation.count(&types, now);
        let stream = Stream {
            id,
            protocol: hello.protocol,
            peer: hello.peer,
            connected: now,
            credential: hello.credential.clone(),
            expires: proof.expires(),
            from_metadata,
            version,
            snapshots,
            closing,
            rollout: Rollout::default(),
            types,
            settled: None,
            published: None,
            push: Push::Sent,
            bytes: 0,
            faults: Vec::new(),
        };
        self.opened(&key, stream, observation, Arc::new(metadata));
        tracing::debug!(proxy = %key, peer = %hello.peer, "proxy connected");
        let report = Box::new(Reporter { registry: self.clone(), key, id, is_refused: false });
        Session { snapshots: snapshots_of_session, closing: closing_of_session, report }
    }
}

/// The document to store. That of the proxy itself, unless inbounds are held back.
fn provided_document(
    snapshot: &Snapshot,
    key: &ProxyKey,
    provided: ProvidedDataplane,
    registration: &Registration<'_>,
) -> Value {
    let ProvidedDataplane { document, mut effective } = provided;
    let written = effective.spec.clone();
    let known = stored::dataplane(snapshot, key);
    let status = stored::dataplane_status(snapshot, key);
    registration.hold(&mut effective.spec, known.as_ref().map(|known| &known.spec), &status);
    if effective.spec == written { document } else { effective.document(key) }
}

fn denied(reason: String) -> Closing {
    closing(Closing::UNAUTHENTICATED, reason)
}

pub(crate) fn proxy_of(node: &Node) -> Result<ProxyKey, Closing> {
    let Node { id, metadata, .. } = node;
    ProxyKey::from_node_id(id).ok_or_else(|| {
        // Proxies of other types belong to no mesh. Only this field is read, and nothing is copied.
        let proxy_type = metadata.as_ref().and_then(|metadata| metadata.fields.get(PROXY_TYPE)?.kind.as_ref());
        match proxy_type {
            Some(Kind::StringValue(text)) if ProxyType::read(text) != ProxyType::Dataplane => {
                not_served(ProxyType::read(text))
            }
            _ => closing(Closing::INVALID_ARGUMENT, format!("node.id must be <mesh>.<name>, but is {id:?}")),
        }
    })
}

/// To be called when the token is verified.
pub(crate) fn metadata_of(node: &Node) -> Result<NodeMetadata, Closing> {
    let metadata = node.metadata.as_ref().map(NodeMetadata::read).unwrap_or_default();
    if metadata.proxy_type == ProxyType::Dataplane { Ok(metadata) } else { Err(not_served(metadata.proxy_type)) }
}

fn not_served(proxy_type: ProxyType) -> Closing {
    let proxy_type = proxy_type.as_str();
    let reason = format!("proxies of type {proxy_type:?} are not supported, only \"dataplane\" is");
    closing(Closing::INVALID_ARGUMENT, reason)
}

fn not_registered(refusal: &Refusal) -> Closing {
    let reason = format!("{NOT_REGISTERED}: {refusal}");
    match refusal {
        Refusal::Malformed(_) | Refusal::Invalid { .. } | Refusal::Denied { .. } => {
            closing(Closing::INVALID_ARGUMENT, reason)
        }
        Refusal::NoMesh
        | Refusal::UnreadableMesh(_)
        | Refusal::NotFound
        | Refusal::Conflict(_)
        | Refusal::Store(_)
        | Refusal::Cancelled(_)
        | Refusal::Make(_) => closing(Closing::UNAVAILABLE, reason),
    }
}

pub(crate) fn closing(code: u8, message: impl Into<String>) -> Closing {
    Closing { code, message: message.into() }
}
