//! Typed documents of a case.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use kodiak_kinds::{draft, kinds};
use kodiak_model::{Kind, Problems, check, policy::Body};
use kodiak_rules::{Gateway, Policy, PolicyIndex, Proxy, Resource, Resources};
use serde_json::Value;

use super::metas::ResourceMeta;
use crate::lenient;

/// A validated document.
pub(crate) struct Read {
    pub(crate) kind: &'static Kind,
    pub(crate) named: ResourceMeta,
    /// Canonical JSON text.
    pub(crate) spec: String,
}

/// Why a case cannot run.
pub(crate) enum CannotRun {
    /// An unsupported feature.
    Missing(String),
    Broken(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for CannotRun {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

pub(crate) fn documents(text: &str) -> Result<Vec<Read>, CannotRun> {
    lenient::parse(text)?.into_iter().map(|document| read(document.value)).collect()
}

fn read(document: Value) -> Result<Read, CannotRun> {
    let draft = draft(document).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let kind = kinds().by_name(&draft.kind);
    let kind = kind.ok_or_else(|| CannotRun::Missing(format!("kind {} is unsupported", draft.kind)))?;
    let named = ResourceMeta {
        mesh: draft.mesh.clone().unwrap_or_default(),
        name: draft.name.clone(),
        labels: draft.labels.clone(),
    };
    let mut problems = Problems::default();
    match check::spec(kind, draft, &mut problems) {
        Some(spec) => Ok(Read { kind, named, spec: spec.json().to_owned() }),
        None => Err(anyhow::anyhow!("{} {}: {problems}", kind.name, named.name).into()),
    }
}

/// Inputs of a case.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) policy_index: PolicyIndex,
    /// Resources that policies reference, without routes.
    resources: Vec<Resource>,
    /// In the order of the file.
    pub(crate) policies: Vec<Arc<Policy>>,
    /// Specs of policies, by the address of the policy.
    specs: BTreeMap<*const Policy, Value>,
}

impl Input {
    pub(crate) fn add(&mut self, read: Read) -> anyhow::Result<()> {
        let Read { kind, named: ResourceMeta { mesh, name, labels }, spec } = read;
        let (mesh, name, labels): (Arc<str>, Arc<str>, _) = (mesh.into(), name.into(), Arc::new(labels));
        if kind.name == "MeshGateway" {
            let spec = Arc::new(serde_json::from_str(&spec)?);
            let gateway = Gateway { mesh, name: Arc::clone(&name), labels, spec };
            self.policy_index.set_gateway(&name, Some(Arc::new(gateway)));
        } else if let Some(body) = Body::stored(kind, &spec)? {
            let spec: Value = serde_json::from_str(&spec)?;
            let policy = Arc::new(Policy { kind, mesh, name, labels, body });
            // Some files have two policies of one name, so names cannot be keys.
            let key = (kind.name, self.policies.len().to_string().into());
            self.policy_index.set_policy(&key, Some(Arc::clone(&policy)));
            self.specs.insert(Arc::as_ptr(&policy), spec);
            self.policies.push(policy);
        } else {
            let ports = (kind.language.ports)(&spec);
            self.resources.push(Resource { kind, mesh, name, labels, ports });
        }
        Ok(())
    }

    /// The policy kind of the case: the one that is not a route, if there is one.
    pub(crate) fn kind(&self) -> anyhow::Result<&'static Kind> {
        let mut kinds: Vec<&'static Kind> = self.policies.iter().map(|policy| policy.kind).collect();
        kinds.sort_by_key(|kind| (kind.name == "MeshHTTPRoute", kind.name));
        kinds.first().copied().context("there are no policies")
    }

    pub(crate) fn of_kind(&self, kind: &Kind) -> Vec<Arc<Policy>> {
        self.policies.iter().filter(|policy| policy.kind.name == kind.name).cloned().collect()
    }

    pub(crate) fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        for resource in &self.resources {
            resources.insert(resource.clone());
        }
        for route in self.policies.iter().filter(|policy| policy.kind.name == "MeshHTTPRoute") {
            resources.insert_route(Arc::clone(route));
        }
        resources
    }

    pub(crate) fn spec(&self, policy: &Arc<Policy>) -> Option<&Value> {
        self.specs.get(&Arc::as_ptr(policy))
    }
}

/// The recorded function uses the proxy's mesh, whatever the document has.
pub(crate) fn proxy(read: &Read, mesh: &Arc<str>) -> anyhow::Result<Proxy> {
    let Read { named: ResourceMeta { name, labels, .. }, spec, .. } = read;
    let dataplane = Arc::new(serde_json::from_str(spec)?);
    Ok(Proxy {
        mesh: Arc::clone(mesh),
        name: name.as_str().into(),
        labels: Arc::new(labels.clone()),
        dataplane,
        admission: None,
    })
}
