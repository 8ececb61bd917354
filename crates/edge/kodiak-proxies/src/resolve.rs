//! `POST /resolve`: a proxy that lost destinations asks for a hostname of its mesh that it does not have.
//!
//! Its DNS server answers with the address, and the proxy explains calls to it. A name that no destination has stays one
//! that does not exist.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, StatusCode};
use kodiak_ads::Reply;
use kodiak_model::ProxyKey;
use kodiak_xds::hostnames::HostnameIndex;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Registry,
    drain::credential_of,
    port::{empty, json_reply, text},
};

#[derive(Deserialize)]
struct Request {
    mesh: String,
    name: String,
    hostname: String,
}

/// Hostnames of the meshes whose proxies lose destinations.
#[derive(Default)]
pub(crate) struct MeshHostnames(Mutex<BTreeMap<Arc<str>, HostnameIndex>>);

impl MeshHostnames {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, HostnameIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Hostnames that proxies of the mesh may ask for; `None` for none.
    pub fn publish_hostnames(&self, mesh: Arc<str>, hostnames: Option<HostnameIndex>) {
        let mut meshes = self.0.hostnames.lock();
        match hostnames {
            Some(hostnames) => drop(meshes.insert(mesh, hostnames)),
            None => drop(meshes.remove(&mesh)),
        }
    }

    /// Address of a hostname of the proxy's own mesh. Needs a token with which the proxy may connect.
    pub(crate) fn resolve(&self, headers: &HeaderMap, body: &[u8]) -> Reply {
        let Request { mesh, name, hostname } = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => {
                let reason = format!("the request is not {{mesh, name, hostname}}: {error}");
                return text(StatusCode::BAD_REQUEST, reason);
            }
        };
        let key = ProxyKey::new(&mesh, &name);
        let admitted = self.identify(&key, &credential_of(headers)).and_then(|proof| self.check(&key, &proof, None));
        if let Err(denied) = admitted {
            return text(StatusCode::UNAUTHORIZED, denied.message);
        }
        let address = self.0.hostnames.lock().get(&*mesh).and_then(|all| all.address(&hostname.to_ascii_lowercase()));
        address.map_or_else(|| empty(StatusCode::NOT_FOUND), |address| json_reply(&json!({ "address": address })))
    }
}
