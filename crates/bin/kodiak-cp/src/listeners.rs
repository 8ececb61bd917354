//! Ports of the control plane and their limits.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::Router;
use kodiak_api::server::Routed;
use kodiak_listen::{ConnectionLimits, ConnectionObserver, Listener, Server};
use kodiak_metrics::{Listeners, Metrics};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{config::Config, descriptors};

/// Timeout of open requests at shutdown.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Limits of all ports, and the TLS settings and metrics that their servers share.
pub(crate) struct Ports {
    pub(crate) http: ConnectionLimits,
    pub(crate) https: ConnectionLimits,
    pub(crate) proxies: ConnectionLimits,
    pub(crate) diagnostics: ConnectionLimits,
    pub(crate) monitoring: ConnectionLimits,
    metrics: Listeners,
    drain: CancellationToken,
}

impl Ports {
    pub(crate) fn new(config: &Config, metrics: &Metrics, drain: &CancellationToken) -> Self {
        let api = config.api_server.limits.over(ConnectionLimits::api());
        let mut ports = Self {
            http: api,
            https: api,
            proxies: config.dp_server.limits.over(ConnectionLimits::proxies()),
            diagnostics: config.diagnostics.limits.over(ConnectionLimits::diagnostics()),
            monitoring: config.monitoring_assignment_server.limits.over(ConnectionLimits::monitoring()),
            metrics: metrics.listeners.clone(),
            drain: drain.clone(),
        };
        let Self { http, https, proxies, diagnostics, monitoring, .. } = &mut ports;
        descriptors::fit(&mut [http, https, proxies, diagnostics, monitoring]);
        ports
    }

    /// Server; `name` is used in logs and metrics.
    pub(crate) fn server(
        &self,
        name: &'static str,
        listener: Listener,
        tls: Option<Arc<ServerConfig>>,
        limits: ConnectionLimits,
    ) -> Server {
        let observer: Arc<dyn ConnectionObserver> = Arc::new(self.metrics.of(name));
        Server { name, listener, tls, limits, observer: Some(observer), drain: self.drain.clone(), grace: GRACE }
    }

    /// Serves a router over plain HTTP.
    pub(crate) fn plain(
        &self,
        name: &'static str,
        listener: TcpListener,
        limits: ConnectionLimits,
        router: Router,
    ) -> impl Future<Output = ()> + use<> {
        self.server(name, Listener::Tcp(listener), None, limits).serve(Routed(router))
    }
}

/// Binds a port. `setting` is named in the error.
pub(crate) async fn bind(setting: &str, interface: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(interface, port);
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: is another control plane running? Choose another port with {setting}")
    })
}
