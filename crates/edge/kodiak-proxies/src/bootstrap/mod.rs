//! `POST /bootstrap`: the bootstrap configuration of an Envoy.
//!
//! The token is verified before anything but the name of the proxy is read. Then the request is admitted as a stream of the
//! proxy would be: the token must be valid for the Dataplane too, before anything of the proxy changes.

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
use kodiak_store::Snapshot;
use kodiak_xds::{
    bootstrap::{Bootstrap, ControlPlane, XdsProtocol, to_yaml},
    names,
    node::{NodeMetadata, features},
};
use serde_json::json;

use crate::{
    Registry,
    admission::closing,
    credential::{self, VerifiedToken},
    dataplane::{self, EffectiveDataplane},
    port::{empty, json_reply, reply, text},
    settings::Authn,
    stored,
};
use request::{BootstrapRequest, ProxyCredentials};

const TOKEN_REQUIRED: &str = "Dataplane Token is required. Generate token using 'kumactl generate dataplane-token > /path/file' \
     and provide it via --dataplane-token-file=/path/file argument to Kuma DP";
const NO_CA: &str = "neither the proxy nor the control plane has a CA certificate to verify the control plane; \
     set it with --ca-cert-file";
const ADMIN_PORT: u32 = 9901;

/// Why a bootstrap request fails.
enum BootstrapError {
    /// The request is invalid; sending it again does not help.
    Invalid(String),
    /// The request does not match the configuration of the control plane.
    Setup(String),
    /// The token is not valid for this proxy.
    Denied(String),
    /// The Dataplane does not exist yet. The sidecar process asks again.
    NotFound,
}

impl BootstrapError {
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
        let credentials: ProxyCredentials = match serde_json::from_slice(request.body()) {
            Ok(credentials) => credentials,
            Err(error) => return unreadable(&error),
        };
        let proof = match self.verify(&credentials) {
            Ok(proof) => proof,
            Err(error) => {
                if let BootstrapError::Denied(reason) = &error {
                    self.refused(&closing(Closing::UNAUTHENTICATED, reason.as_str()));
                }
                return error.reply();
            }
        };
        let parsed: BootstrapRequest = match serde_json::from_slice(request.body()) {
            Ok(parsed) => parsed,
            Err(error) => return unreadable(&error),
        };
        let (bootstrap, address) = match self.make_bootstrap(request, &parsed) {
            Ok(found) => found,
            Err(error) => return error.reply(),
        };
        let key = ProxyKey::new(&credentials.mesh, &credentials.name);
        let resource = Some(parsed.dataplane_resource.as_str()).filter(|text| !text.is_empty());
        let authorize = |snapshot: &Snapshot| self.check_on(snapshot, &key, &proof, resource);
        match self.0.readiness.restarted(&key, authorize).await {
            Ok(Ok(())) => (),
            Ok(Err(refused)) => {
                self.refused(&refused);
                return text(StatusCode::UNAUTHORIZED, refused.message);
            }
            Err(error) => {
                // It would stay drained.
                let reason = format!("cannot end the drain of {key}: {error}; try again");
                return text(StatusCode::SERVICE_UNAVAILABLE, reason);
            }
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

    fn verify(&self, credentials: &ProxyCredentials) -> Result<VerifiedToken, BootstrapError> {
        let ProxyCredentials { mesh, name, dataplane_token } = credentials;
        if self.0.settings.authn != Authn::None && dataplane_token.0.is_none() {
            return Err(BootstrapError::Invalid(TOKEN_REQUIRED.to_owned()));
        }
        let key = ProxyKey::new(mesh, name);
        self.mesh(&key)?;
        credential::verify(&self.0.catalog, &self.0.settings, &key, dataplane_token).map_err(BootstrapError::Denied)
    }

    fn mesh(&self, key: &ProxyKey) -> Result<Arc<Mesh>, BootstrapError> {
        let missing = || BootstrapError::Invalid(format!("mesh: mesh {:?} does not exist", key.mesh));
        stored::mesh(&self.0.catalog.store().snapshot(), &key.mesh).ok_or_else(missing)
    }

    /// The bootstrap configuration, and the address of the proxy.
    fn make_bootstrap(
        &self,
        request: &Request<Bytes>,
        parsed: &BootstrapRequest,
    ) -> Result<(Bootstrap, String), BootstrapError> {
        let settings = &self.0.settings;
        if !matches!(parsed.proxy_type.as_str(), "" | "dataplane") {
            let reason = format!("proxyType: {:?} is not supported, only \"dataplane\" is", parsed.proxy_type);
            return Err(BootstrapError::Invalid(reason));
        }
        let host = self.host(request)?;
        let key = ProxyKey::new(&parsed.mesh, &parsed.name);
        let dataplane = self.dataplane(&key, parsed)?;
        let ca = self.ca(parsed)?;
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
            load_reports: settings.traffic.is_some(),
            admin: metadata.admin_endpoint().expect("the metadata has a port of the admin interface"),
            metadata,
        };
        Ok((bootstrap, address.unwrap_or_default()))
    }

    /// Host that the proxy will connect to. The certificate there must have it.
    fn host(&self, request: &Request<Bytes>) -> Result<String, BootstrapError> {
        if let Some(host) = &self.0.settings.xds_host {
            return Ok(host.clone());
        }
        let host = host::of_request(request).ok_or_else(|| {
            BootstrapError::Setup("the request has no host; send it to a name or an address".to_owned())
        })?;
        let names = &self.0.settings.server_names;
        if !host::is_named(&host, names) {
            return Err(BootstrapError::Setup(format!(
                "the certificate of the control plane is not valid for {host:?}, only for {names:?}; connect to one \
                 of these, or configure a certificate for {host:?}"
            )));
        }
        Ok(host)
    }

    fn dataplane(&self, key: &ProxyKey, parsed: &BootstrapRequest) -> Result<EffectiveDataplane, BootstrapError> {
        let snapshot = self.0.catalog.store().snapshot();
        let mesh = self.mesh(key)?;
        let dataplane = if parsed.dataplane_resource.is_empty() {
            stored::dataplane(&snapshot, key).ok_or(BootstrapError::NotFound)?
        } else {
            let provided = dataplane::provided(&self.0.catalog, &mesh, key, &parsed.dataplane_resource);
            provided.map_err(BootstrapError::Invalid)?.effective
        };
        let networking = dataplane.spec.networking.as_ref();
        let redirected = networking.is_some_and(|networking| networking.transparent_proxying.is_some());
        if (redirected || parsed.dataplane_config.is_some()) && !dataplane.spec.outbounds().is_empty() {
            let reason = "outbound: should be empty since dataplane is in Transparent Proxying mode";
            return Err(BootstrapError::Invalid(reason.to_owned()));
        }
        Ok(dataplane)
    }

    fn metadata(&self, parsed: &BootstrapRequest, dataplane: &Dataplane) -> Result<NodeMetadata, BootstrapError> {
        let requested = metadata::of_request(parsed).map_err(|error| {
            let reason = "dataplaneConfig, otelEnv: are nested too deep for the configuration of Envoy";
            BootstrapError::Invalid(format!("{reason}: {error}"))
        })?;
        let workdir = requested.workdir.as_deref().filter(|_| self.0.settings.admin_socket);
        let admin_socket = workdir.map(names::admin_socket);
        let address = dataplane.networking.as_ref().map(|networking| networking.address.clone());
        Ok(NodeMetadata { address, admin_port: Some(admin_port(dataplane)), admin_socket, ..requested })
    }

    /// CA by which the proxy will trust the control plane.
    fn ca(&self, parsed: &BootstrapRequest) -> Result<String, BootstrapError> {
        let provided = Some(&parsed.ca_cert).filter(|ca| !ca.is_empty());
        let ca = provided.or(self.0.settings.ca.as_ref()).ok_or_else(|| BootstrapError::Setup(NO_CA.to_owned()))?;
        let origin = if provided.is_some() { "the proxy" } else { "the control plane" };
        (self.0.settings.check_ca)(ca).map_err(|reason| {
            BootstrapError::Setup(format!(
                "the certificate of {origin} to verify the control plane is not a CA certificate: {reason}; \
                 set a CA certificate with --ca-cert-file"
            ))
        })?;
        Ok(ca.clone())
    }
}

/// First service of the proxy; in meshes without tags, its workload.
fn cluster(dataplane: &EffectiveDataplane) -> String {
    let service = dataplane.spec.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).min();
    service.or(dataplane.labels.get(labels::WORKLOAD)).map_or_else(|| "unknown".to_owned(), Clone::clone)
}

fn admin_port(dataplane: &Dataplane) -> u32 {
    let admin = dataplane.networking.as_ref().and_then(|networking| networking.admin.as_ref());
    admin.map(|admin| admin.port).filter(|port| *port != 0).unwrap_or(ADMIN_PORT)
}
