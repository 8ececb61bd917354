//! `POST /bootstrap`: what an Envoy needs to start.
//!
//! The token is verified before anything but the name of the proxy is read. Whether it fits the Dataplane is checked on
//! every stream, where it counts.

mod host;
mod metadata;
mod request;

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use kodiak_ads::{Closing, Reply};
use kodiak_model::{
    ProxyKey,
    kinds::{dataplane::Dataplane, mesh::Mesh},
    labels, tags,
};
use kodiak_xds::{
    bootstrap::{Bootstrap, ControlPlane, XdsProtocol, to_yaml},
    names,
    node::{NodeMetadata, features},
};
use serde_json::json;

use crate::{
    Registry,
    admission::closing,
    answer::{empty, json_reply, reply, text},
    credential,
    dataplane::{self, InForce},
    settings::Authn,
    stored,
};
use request::{BootstrapRequest, Introduction};

const TOKEN_REQUIRED: &str = "Dataplane Token is required. Generate token using 'kumactl generate dataplane-token > /path/file' \
     and provide it via --dataplane-token-file=/path/file argument to Kuma DP";
const NO_AUTHORITY: &str = "neither the proxy nor the control plane gives a certificate to verify the control plane; \
     give the authority's with --ca-cert-file";
const ADMIN_PORT: u32 = 9901;

/// A request that is not answered with a configuration.
enum Fault {
    /// What was asked for is wrong; asking again does not help.
    Invalid(String),
    /// It does not fit how the control plane is set up.
    Setup(String),
    /// The token is not good for this proxy.
    Denied(String),
    /// There is no Dataplane yet. The runner asks again.
    NotFound,
}

impl Fault {
    fn reply(self) -> Reply {
        match self {
            Self::Invalid(reason) => text(StatusCode::UNPROCESSABLE_ENTITY, reason),
            Self::Setup(reason) => text(StatusCode::BAD_REQUEST, reason),
            Self::Denied(reason) => text(StatusCode::UNAUTHORIZED, reason),
            Self::NotFound => empty(StatusCode::NOT_FOUND),
        }
    }
}

impl Registry {
    pub(crate) async fn bootstrap(&self, request: &Request<Bytes>) -> Reply {
        let unreadable =
            |error: &serde_json::Error| text(StatusCode::BAD_REQUEST, format!("the request cannot be read: {error}"));
        let introduction: Introduction = match serde_json::from_slice(request.body()) {
            Ok(introduction) => introduction,
            Err(error) => return unreadable(&error),
        };
        if let Err(fault) = self.verify(&introduction) {
            if let Fault::Denied(reason) = &fault {
                self.refused(&closing(Closing::UNAUTHENTICATED, reason.as_str()));
            }
            return fault.reply();
        }
        let parsed: BootstrapRequest = match serde_json::from_slice(request.body()) {
            Ok(parsed) => parsed,
            Err(error) => return unreadable(&error),
        };
        let (bootstrap, address) = match self.make_bootstrap(request, &parsed) {
            Ok(found) => found,
            Err(fault) => return fault.reply(),
        };
        let key = ProxyKey::new(&introduction.mesh, &introduction.name);
        if let Err(error) = self.0.readiness.restarted(&key).await {
            // It would stay drained.
            let reason = format!("cannot end the drain of {key}: {error}; try again");
            return text(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        let yaml = to_yaml(&bootstrap.message());
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        if accept != Some("application/json") {
            return reply(StatusCode::OK, "text/x-yaml", yaml);
        }
        json_reply(&json!({
            "bootstrap": BASE64_STANDARD.encode(yaml),
            "kumaSidecarConfiguration": {
                "networking": { "corefileTemplate": null, "address": address },
                "metrics": { "aggregate": [] },
            },
        }))
    }

    fn verify(&self, introduction: &Introduction) -> Result<(), Fault> {
        let Introduction { mesh, name, dataplane_token } = introduction;
        if self.0.settings.authn != Authn::None && dataplane_token.0.is_none() {
            return Err(Fault::Invalid(TOKEN_REQUIRED.to_owned()));
        }
        let key = ProxyKey::new(mesh, name);
        self.mesh(&key)?;
        credential::verify(&self.0.catalog, &self.0.settings, &key, dataplane_token).map(drop).map_err(Fault::Denied)
    }

    fn mesh(&self, key: &ProxyKey) -> Result<Arc<Mesh>, Fault> {
        let missing = || Fault::Invalid(format!("mesh: mesh {:?} does not exist", key.mesh));
        stored::mesh(&self.0.catalog.store().snapshot(), &key.mesh).ok_or_else(missing)
    }

    /// The configuration, and the address of the proxy.
    fn make_bootstrap(
        &self,
        request: &Request<Bytes>,
        parsed: &BootstrapRequest,
    ) -> Result<(Bootstrap, String), Fault> {
        let settings = &self.0.settings;
        if !matches!(parsed.proxy_type.as_str(), "" | "dataplane") {
            let reason = format!("proxyType: {:?} is not served here, only \"dataplane\" is", parsed.proxy_type);
            return Err(Fault::Invalid(reason));
        }
        let host = self.host(request)?;
        let key = ProxyKey::new(&parsed.mesh, &parsed.name);
        let dataplane = self.dataplane(&key, parsed)?;
        let ca = self.authority(parsed)?;
        let address = dataplane.spec.networking.as_ref().map(|networking| networking.address.clone());
        let metadata = self.metadata(parsed, &dataplane.spec)?;
        let delta = settings.default_delta || metadata.has(features::DELTA);
        let bootstrap = Bootstrap {
            mesh: parsed.mesh.clone(),
            name: parsed.name.clone(),
            cluster: cluster(&dataplane),
            control_plane: ControlPlane { host, port: settings.xds_port.into(), ca },
            token: parsed.dataplane_token.0.clone(),
            protocol: if delta { XdsProtocol::Delta } else { XdsProtocol::StateOfTheWorld },
            health: settings.health.is_some(),
            admin: metadata.admin_endpoint().expect("the metadata has a port of the admin interface"),
            metadata,
        };
        Ok((bootstrap, address.unwrap_or_default()))
    }

    /// Where the proxy will connect to. It must be a name that the certificate there has.
    fn host(&self, request: &Request<Bytes>) -> Result<String, Fault> {
        if let Some(host) = &self.0.settings.xds_host {
            return Ok(host.clone());
        }
        let host = host::asked(request)
            .ok_or_else(|| Fault::Setup("the request has no host; send it to a name or an address".to_owned()))?;
        let names = &self.0.settings.server_names;
        if !host::is_named(&host, names) {
            return Err(Fault::Setup(format!(
                "the certificate of the control plane is not for {host:?}, only for {names:?}; reach the control plane \
                 by one of these, or give it a certificate that names {host:?}"
            )));
        }
        Ok(host)
    }

    fn dataplane(&self, key: &ProxyKey, parsed: &BootstrapRequest) -> Result<InForce, Fault> {
        let snapshot = self.0.catalog.store().snapshot();
        let mesh = self.mesh(key)?;
        let dataplane = if parsed.dataplane_resource.is_empty() {
            stored::dataplane(&snapshot, key).ok_or(Fault::NotFound)?
        } else {
            let brought = dataplane::brought(&self.0.catalog, &mesh, key, &parsed.dataplane_resource);
            brought.map_err(Fault::Invalid)?.in_force
        };
        let networking = dataplane.spec.networking.as_ref();
        let redirected = networking.is_some_and(|networking| networking.transparent_proxying.is_some());
        if (redirected || parsed.dataplane_config.is_some()) && !dataplane.spec.outbounds().is_empty() {
            let reason = "outbound: should be empty since dataplane is in Transparent Proxying mode";
            return Err(Fault::Invalid(reason.to_owned()));
        }
        Ok(dataplane)
    }

    fn metadata(&self, parsed: &BootstrapRequest, dataplane: &Dataplane) -> Result<NodeMetadata, Fault> {
        let said = metadata::said(parsed).map_err(|error| {
            let reason = "dataplaneConfig, otelEnv: are nested too deep for the configuration of Envoy";
            Fault::Invalid(format!("{reason}: {error}"))
        })?;
        let workdir = said.workdir.as_deref().filter(|_| self.0.settings.admin_socket);
        let admin_socket = workdir.map(names::admin_socket);
        Ok(NodeMetadata { admin_port: Some(admin_port(dataplane)), admin_socket, ..said })
    }

    /// Whom the proxy will believe the control plane by.
    fn authority(&self, parsed: &BootstrapRequest) -> Result<String, Fault> {
        let brought = Some(&parsed.ca_cert).filter(|ca| !ca.is_empty());
        let ca = brought.or(self.0.settings.ca.as_ref()).ok_or_else(|| Fault::Setup(NO_AUTHORITY.to_owned()))?;
        let origin = if brought.is_some() { "the proxy" } else { "the control plane" };
        (self.0.settings.check_authority)(ca).map_err(|reason| {
            Fault::Setup(format!(
                "the certificate that {origin} gives to verify the control plane is not one of an authority: {reason}; \
                 give the authority's with --ca-cert-file"
            ))
        })?;
        Ok(ca.clone())
    }
}

/// The first service of the proxy; in meshes without tags, its workload.
fn cluster(dataplane: &InForce) -> String {
    let service = dataplane.spec.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).min();
    service.or(dataplane.labels.get(labels::WORKLOAD)).map_or_else(|| "unknown".to_owned(), Clone::clone)
}

fn admin_port(dataplane: &Dataplane) -> u32 {
    let admin = dataplane.networking.as_ref().and_then(|networking| networking.admin.as_ref());
    admin.map(|admin| admin.port).filter(|port| *port != 0).unwrap_or(ADMIN_PORT)
}
