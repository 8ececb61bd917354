//! A mesh with one permission per service, which allows a few other services.

use std::{fmt::Write as _, sync::Arc};

use anyhow::Context as _;
use kodiak_kinds::kinds;
use kodiak_model::{Labels, policy::Body};
use kodiak_rules::{Policy, Proxy};
use serde_json::{Value, json};

pub(super) const MESH: &str = "default";
pub(super) const KIND: &str = "MeshTrafficPermission";

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) services: usize,
    /// Callers of each service.
    pub(super) edges: usize,
}

impl Size {
    /// Dataplane of a service; both have this number.
    pub(super) fn proxy(n: usize) -> anyhow::Result<Arc<Proxy>> {
        let dataplane = json!({ "networking": networking(n) });
        Ok(Arc::new(Proxy {
            mesh: MESH.into(),
            name: name(n).into(),
            labels: Arc::new(Labels::from([("app".to_owned(), name(n))])),
            dataplane: Arc::new(serde_json::from_value(dataplane)?),
            admission: None,
        }))
    }

    /// Permission of a service. Each version allows other callers.
    pub(super) fn permission(self, n: usize, version: usize) -> anyhow::Result<Arc<Policy>> {
        let kind = kinds().by_name(KIND).context("MeshTrafficPermission is a kind")?;
        let facts = kind.policy.as_ref().context("MeshTrafficPermission is a policy")?;
        let body = Body::read(facts, &self.permission_spec(n, version)).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Arc::new(Policy { kind, mesh: MESH.into(), name: name(n).into(), labels: Arc::default(), body }))
    }

    fn permission_spec(self, n: usize, version: usize) -> Value {
        let callers = (0..self.edges).map(|edge| self.caller(n, version * self.edges + edge));
        let from = callers.map(|caller| {
            json!({ "targetRef": { "kind": "MeshService", "name": name(caller) }, "default": { "action": "Allow" } })
        });
        json!({ "targetRef": { "kind": "MeshService", "name": name(n) }, "from": from.collect::<Vec<_>>() })
    }

    /// Dataplanes and permissions as a YAML stream, for a control plane.
    pub(super) fn documents(self) -> String {
        let mut text = String::new();
        for n in 0..self.services {
            let dataplane = json!({ "type": "Dataplane", "mesh": MESH, "name": name(n), "networking": networking(n) });
            let spec = self.permission_spec(n, 0);
            let permission = json!({ "type": KIND, "mesh": MESH, "name": name(n), "spec": spec });
            let _ = writeln!(text, "---\n{dataplane}\n---\n{permission}");
        }
        text
    }

    /// Spread over the mesh; the first ones are distinct.
    fn caller(self, n: usize, edge: usize) -> usize {
        (n + 1 + edge * 37) % self.services
    }
}

fn networking(n: usize) -> Value {
    let tags = json!({ "kuma.io/service": name(n), "kuma.io/protocol": "http", "team": format!("team-{}", n / 10) });
    let address = format!("10.{}.{}.{}", n / 62_500 % 250, n / 250 % 250, n % 250 + 1);
    json!({ "address": address, "inbound": [{ "port": 8080, "tags": tags }] })
}

pub(super) fn name(n: usize) -> String {
    format!("service-{n}")
}
