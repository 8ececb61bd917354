//! Start of a control plane from its configuration.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_api::{
    Api, ApiConfig, Info,
    config::{AccessConfig, Allowed, AuthnConfig, IssueConfig, WhyContext},
    server::Routed,
};
use kodiak_ca::{Expiries, MeshCas, watch_expiries};
use kodiak_catalog::{Catalog, CatalogSettings};
use kodiak_kinds::kinds;
use kodiak_listen::{ConnectionLimits, Listener};
use kodiak_mads::Mads;
use kodiak_metrics::{ControlPlaneInfo, Metrics};
use kodiak_model::{Access, Cancellation, Place};
use kodiak_pool::Pool;
use kodiak_proxies::Registry;
use kodiak_reconcilers::{AbsenceLimits, quarantine::Quarantine, run_identities, run_mtls, run_services};
use kodiak_rules::Shadow;
use kodiak_store::{Backend, PostgresConfig, Seal, Secret, Store, StoreConfig, Tls};
use kodiak_xds::names::Naming;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use crate::{
    addresses::Addresses,
    admin::{EnvoyAdmin, OwnPorts},
    apart::{self, ApartPort},
    certificate,
    config::{self, Config, PostgresTlsMode, ResourceNames, StoreType},
    data_sources, defaults,
    diagnostics::{self, Diagnostics},
    faults::Faults,
    identity,
    inspect::Inspector,
    listeners::{GRACE, Ports, bind},
    offline::Offline,
    panics, proxies, socket,
    tasks::Tasks,
    writer::{self, Writer},
};

/// Connection limit of the local socket.
const SOCKET_LIMITS: ConnectionLimits = ConnectionLimits { connections: 256, ..ConnectionLimits::api() };

/// Running control plane. Dropping it ends its tasks.
pub struct ControlPlane {
    pub http: Option<SocketAddr>,
    pub https: Option<SocketAddr>,
    /// Path of the socket for local administration.
    pub socket: Option<PathBuf>,
    pub diagnostics: SocketAddr,
    /// Health port.
    pub health: SocketAddr,
    /// Discovery for Prometheus.
    pub monitoring: Option<SocketAddr>,
    /// Proxy port.
    pub proxies: SocketAddr,
    pub catalog: Catalog,
    /// Connected proxies.
    pub registry: Registry,
    tasks: Tasks,
}

/// Runs until SIGTERM or SIGINT, then drains. Ends early when one of its tasks fails.
pub async fn run(config: Config) -> anyhow::Result<()> {
    Box::pin(run_with(config, Faults::default())).await
}

/// As above, with injected faults for tests.
pub async fn run_with(config: Config, faults: Faults) -> anyhow::Result<()> {
    panics::log_panics();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut control_plane = Box::pin(ControlPlane::start_with(config, faults)).await?;
    tracing::info!("Started.");
    let early = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        error = control_plane.tasks.first_end() => Some(error),
    };
    if let Some(error) = early {
        tracing::error!(error = format!("{error:#}"), "task failed, shutting down");
        control_plane.abandon().await;
        return Err(error);
    }
    tracing::info!("shutting down: draining open requests");
    control_plane.stop().await
}

impl ControlPlane {
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        Box::pin(Self::start_with(config, Faults::default())).await
    }

    /// As above, with injected faults for tests.
    pub async fn start_with(config: Config, faults: Faults) -> anyhow::Result<Self> {
        // Boxed: its large future would be part of every future that starts a control plane.
        Box::pin(Self::start_all(config, faults)).await
    }

    async fn start_all(config: Config, faults: Faults) -> anyhow::Result<Self> {
        let work_dir = work_dir(&config)?;
        let hostname = identity::hostname();
        let instance_id = identity::instance_id(&hostname)?;
        let metrics = Metrics::new();
        let store = Store::open(store_config(&config, &work_dir, &instance_id, &metrics)?).await?;
        let place = Place::Zone { name: config.multizone.zone.name.clone() };
        let catalog = Catalog::new(store.clone(), CatalogSettings { place, unsafe_delete: config.store.unsafe_delete });
        let files = data_sources::files(&config.general, &work_dir)?;
        let keeping = config::services(&config, &config.multizone.zone.name)?;
        let catalog = catalog.with_files(files.clone()).with_ranges(keeping.ranges);
        let info = Info {
            cluster_id: identity::cluster_id(&catalog).await?,
            hostname: hostname.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance_id: instance_id.clone(),
            config: shown(&config)?,
        };
        let shown_info = control_plane_info(&info, &config);
        let certificate = certificate::load(&config, &work_dir, &hostname)?;
        let proxy_listener = bind("dpServer.port", config.dp_server.interface, config.dp_server.port).await?;
        let proxies = proxy_listener.local_addr()?;
        let settings = proxies::settings(&config, &instance_id, &certificate, proxies.port(), &metrics);
        let (events, connections) = mpsc::unbounded_channel();
        let registry = Registry::new(catalog.clone(), settings, events);
        let mesh_cas =
            MeshCas::new(store.clone()).with_files(files.clone()).with_renewal(config.certificates.renewal()?);
        let expiries = Expiries::default();
        let engine = kodiak_engine::EngineSettings {
            zone: config.multizone.zone.name.as_str().into(),
            shadow: Shadow::Ignored,
            naming: naming(&config),
            reachability: config.reachability.mode.into(),
            observe_plaintext: config.traffic.observe,
            explained: config.reachability.explain.then(|| keeping.ranges.virtual_addresses().into()),
            cancellation: Cancellation::never(),
        };
        let offline = Offline::new(store.clone(), engine.clone(), keeping.clone()).with_files(files.clone());
        let quarantine = Quarantine::new({
            let metrics = metrics.xds.clone();
            Box::new(move |count| metrics.resources_quarantined(count))
        });
        let own_ports = OwnPorts::default();
        let admin = EnvoyAdmin::new(config.dp_server.admin_networks()?, own_ports.clone());
        let pool = Pool::new(config.api_server.computed.limits());
        let absence = AbsenceLimits {
            connection_grace: keeping.connection_grace,
            old_trust: config.certificates.keep_old_trust(),
            since: Timestamp::now(),
        };
        let inspector = Inspector {
            instance_id: (*instance_id).into(),
            store: store.clone(),
            registry: registry.clone(),
            mesh_cas: mesh_cas.clone(),
            offline,
            admin,
            quarantine: quarantine.clone(),
            expiries: expiries.clone(),
            absence,
            pool: pool.clone(),
        };
        let api_config = api_config(&config, absence);
        log_write_access(&api_config);
        let api = Api::new(catalog.clone(), api_config, info, metrics.clone(), Arc::new(inspector), pool.clone());
        let router = kodiak_api::router(&api);

        let drain = CancellationToken::new();
        let ports = Ports::new(&config, &metrics, &drain);
        let mut tasks = Tasks::new(drain.clone(), faults.clone());
        tasks.spawn("store", watch_store(store.clone(), drain.clone()));
        let (mut http, mut https) = (None, None);
        let listeners = &config.api_server;
        if listeners.http.enabled {
            let listener = bind("apiServer.http.port", listeners.http.interface, listeners.http.port).await?;
            http = Some(listener.local_addr()?);
            let served = ports.plain("api-http", listener, ports.http, router.clone());
            tasks.spawn("api over http", ending(served));
        }
        if listeners.https.enabled {
            let tls = certificate.config.clone();
            let listener = bind("apiServer.https.port", listeners.https.interface, listeners.https.port).await?;
            https = Some(listener.local_addr()?);
            let server = ports.server("api-https", Listener::Tcp(listener), Some(tls), ports.https);
            tasks.spawn("api over https", ending(server.serve(Routed(router))));
        }
        let mut socket = None;
        if let Some((file, listener)) = socket::open(&listeners.socket, &work_dir)? {
            socket = Some(file.path.clone());
            let served = ports.server("api-socket", listener, None, SOCKET_LIMITS);
            let router = kodiak_api::local_router(&api);
            tasks.spawn("api over its socket", async move {
                served.serve(Routed(router)).await;
                drop(file);
                Ok(())
            });
        }
        let (addresses, look_ups, found) = Addresses::new();
        let watched = watch_expiries(
            expiries.clone(),
            mesh_cas.clone(),
            metrics.meshes.clone(),
            config.certificates.ca_warning(),
            drain.clone(),
        );
        tasks.spawn("expiry of certificates", ending(watched));
        let writer = Writer {
            store: store.clone(),
            settings: engine,
            mesh_cas,
            registry: registry.clone(),
            metrics: metrics.xds.clone(),
            events: connections,
            addresses,
            found,
            quarantine: quarantine.clone(),
            faults,
            expiries,
            bulk: writer::BULK,
            drain: drain.clone(),
        };
        tasks.spawn("writer", writer::run(writer));
        tasks.spawn("addresses of proxies", look_ups.run(drain.clone()));
        let tls = Some(certificate.config);
        let port = kodiak_ads::serve(
            ports.server("proxies", Listener::Tcp(proxy_listener), tls, ports.proxies),
            Arc::new(registry.clone()),
            kodiak_ads::Limits::default(),
        );
        tasks.spawn("proxy port", ending(port));
        tasks.spawn("proxies", {
            let (registry, drain) = (registry.clone(), drain.clone());
            async move {
                registry.run(drain).await;
                Ok(())
            }
        });
        let grace = config.mesh_service.connection_grace_period.to_std().unwrap_or_default();
        tasks.spawn("upkeep of proxies", {
            let (registry, drain) = (registry.clone(), drain.clone());
            async move {
                registry.lead(grace, drain).await;
                Ok(())
            }
        });
        let services = run_services(store.clone(), keeping, quarantine.clone(), drain.clone());
        tasks.spawn("services", async { Ok(services.await?) });
        let identities = run_identities(catalog.clone(), config.multizone.zone.name.as_str().into(), drain.clone());
        tasks.spawn("identities", async { Ok(identities.await?) });
        tasks.spawn("steps of mTLS", {
            let steps = run_mtls(store.clone(), quarantine, absence, drain.clone());
            async { Ok(steps.await?) }
        });

        let mut monitoring = None;
        let server = &config.monitoring_assignment_server;
        if server.enabled {
            let listener = bind("monitoringAssignmentServer.port", server.interface, server.port).await?;
            monitoring = Some(listener.local_addr()?);
            let default_wait = server.default_fetch_timeout.to_std().unwrap_or_default();
            let assignments = Mads::new(store.clone(), default_wait, pool, drain.clone());
            let router = assignments.router();
            tasks
                .spawn("monitoring assignments", ending(ports.plain("monitoring", listener, ports.monitoring, router)));
        }

        let started = Arc::new(AtomicBool::new(false));
        let listener =
            bind("diagnostics.serverPort", config.diagnostics.interface, config.diagnostics.server_port).await?;
        let diagnostics = listener.local_addr()?;
        let metrics = with_kuma_names(metrics, &config, &shown_info);
        let state = Diagnostics::new(store, metrics, started.clone(), absence);
        let router = diagnostics::router(state.clone());
        let with_metrics = ApartPort::new("diagnostics", listener, ports.diagnostics, router)?;
        let listener =
            bind("diagnostics.healthPort", config.diagnostics.interface, config.diagnostics.health_port).await?;
        let health = listener.local_addr()?;
        let router = diagnostics::health_router(state);
        let probes = ApartPort::new("health", listener, ConnectionLimits::health(), router)?;
        let server = move |name, listener, limits| ports.server(name, listener, None, limits);
        tasks.spawn("diagnostics", apart::serve(vec![with_metrics, probes], server));
        own_ports.set([Some(proxies), http, https, monitoring, Some(diagnostics), Some(health)].into_iter().flatten());
        let defaults = kodiak_catalog::Defaults {
            skip_mesh: config.defaults.skip_mesh_creation,
            skip_hostname_generators: config.defaults.skip_hostname_generators,
            skip_admin_token: !config.api_server.authn.tokens.bootstrap_admin_token,
        };
        tasks.spawn("defaults", defaults::run(catalog.clone(), defaults, started, drain.clone()));
        let shown =
            |address: Option<SocketAddr>| address.map_or_else(|| "off".to_owned(), |address| address.to_string());
        let shown_socket = socket.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string());
        tracing::info!(http = shown(http), https = shown(https), %proxies, %diagnostics, %health, monitoring = shown(monitoring), socket = shown_socket, "listening");
        Ok(Self { http, https, socket, diagnostics, health, monitoring, proxies, catalog, registry, tasks })
    }

    /// Shuts down after a failure, within a time limit: some tasks may wait for the failed one. Releases the lease
    /// first, so that another control plane becomes leader at once.
    async fn abandon(self) {
        self.tasks.drain();
        if tokio::time::timeout(GRACE, self.catalog.store().close()).await.is_err() {
            tracing::warn!("store did not close in time: another control plane becomes leader when the lease expires");
        }
        if tokio::time::timeout(GRACE, self.tasks.end()).await.is_err() {
            tracing::warn!("tasks did not end in time, aborting them");
        }
    }

    /// Drains open requests, then closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        let outcome = self.tasks.end().await;
        self.catalog.store().close().await;
        outcome
    }
}

/// Fails when a task of the store panicked, because the store does not respond any more.
async fn watch_store(store: Store, drain: CancellationToken) -> anyhow::Result<()> {
    match drain.run_until_cancelled(store.failed()).await {
        Some(task) => anyhow::bail!("the store's task {task} panicked"),
        None => Ok(()),
    }
}

/// Wraps a task that ends only on drain.
async fn ending(task: impl Future<Output = ()>) -> anyhow::Result<()> {
    task.await;
    Ok(())
}

/// Labels of Kuma's `cp_info`.
fn control_plane_info(info: &Info, config: &Config) -> ControlPlaneInfo {
    let store = match config.store.store_type {
        StoreType::Memory => "memory",
        StoreType::File => "file",
        StoreType::Postgres => "postgres",
    };
    let Info { cluster_id, hostname, version, instance_id, .. } = info;
    vec![
        ("product", "Kodiak".to_owned()),
        ("version", version.clone()),
        ("instance_id", instance_id.clone()),
        ("cluster_id", cluster_id.clone()),
        ("hostname", hostname.clone()),
        ("environment", "universal".to_owned()),
        ("mode", "zone".to_owned()),
        ("store", store.to_owned()),
    ]
}

fn with_kuma_names(metrics: Metrics, config: &Config, info: &ControlPlaneInfo) -> Metrics {
    if config.metrics.kuma_names { metrics.with_kuma_names(&config.multizone.zone.name, info) } else { metrics }
}

fn work_dir(config: &Config) -> anyhow::Result<PathBuf> {
    let configured = &config.general.work_dir;
    let path = if configured.as_os_str().is_empty() {
        let home = std::env::home_dir().context("home folder not found: set general.workDir")?;
        home.join(".kodiak")
    } else {
        configured.clone()
    };
    std::fs::create_dir_all(&path)
        .with_context(|| format!("cannot create the working directory {}", path.display()))?;
    Ok(path)
}

fn store_config(config: &Config, work_dir: &Path, instance_id: &str, metrics: &Metrics) -> anyhow::Result<StoreConfig> {
    let backend = match config.store.store_type {
        StoreType::Memory => Backend::Memory,
        StoreType::File => {
            let configured = &config.store.file.path;
            let path =
                if configured.as_os_str().is_empty() { work_dir.join("kodiak.redb") } else { configured.clone() };
            Backend::File { path }
        }
        StoreType::Postgres => Backend::Postgres(postgres_config(&config.store.postgres, instance_id)),
    };
    let mut store = StoreConfig::new(backend);
    if config.store.seal_secrets && config.store.store_type != StoreType::Memory {
        let secrets = kinds().iter().filter(|kind| kind.access == Access::Admin).map(|kind| kind.name.to_owned());
        store.seal = Some(match config.store.seal_key.expose() {
            "" => Seal::load_or_create(&work_dir.join("seal.key"), secrets.collect())?,
            key => Seal::from_text(key, secrets.collect())
                .context("store.sealKey (KODIAK_STORE_SEAL_KEY) must be 32 bytes in base64")?,
        });
    }
    store.observer = Some(Arc::new(metrics.store.clone()));
    Ok(store)
}

fn postgres_config(config: &config::Postgres, instance_id: &str) -> PostgresConfig {
    let config::Postgres { host, port, user, password, db_name, tls, poll_interval_seconds, lease_seconds } = config;
    let ca = (!tls.ca_path.as_os_str().is_empty()).then(|| tls.ca_path.clone());
    PostgresConfig {
        host: host.clone(),
        port: *port,
        user: user.clone(),
        password: (!password.expose().is_empty()).then(|| Secret(password.expose().to_owned())),
        database: db_name.clone(),
        tls: match tls.mode {
            PostgresTlsMode::Disable => Tls::Disable,
            PostgresTlsMode::Verify => Tls::Verify { ca },
        },
        poll_interval: Duration::from_secs(u64::from(*poll_interval_seconds).max(1)),
        lease_ttl: Duration::from_secs(u64::from(*lease_seconds).max(2)),
        instance_id: instance_id.to_owned(),
        ..PostgresConfig::default()
    }
}

/// Logs at start who may write resources.
fn log_write_access(config: &ApiConfig) {
    let allowed = &config.access.modify_resources;
    let (users, groups) = (allowed.users.join(","), allowed.groups.join(","));
    if config.read_only {
        tracing::info!("write access: none, the API is read-only");
    } else if allowed.includes_anonymous() {
        tracing::warn!(
            groups,
            "write access: everyone who reaches the API; set access.anonymousWrites=false to close it"
        );
    } else {
        tracing::info!(users, groups, "write access: authenticated users and this machine");
    }
}

fn naming(config: &Config) -> Naming {
    match config.xds_server.resource_names {
        ResourceNames::Kodiak => Naming::Kodiak,
        ResourceNames::Kuma => Naming::Kuma,
        ResourceNames::Kri => Naming::Kri,
    }
}

fn api_config(config: &Config, absence: AbsenceLimits) -> ApiConfig {
    let allowed = |list: &config::Allowed| Allowed { users: list.users.clone(), groups: list.groups.clone() };
    let lists = &config.access.lists;
    let tokens = &config.api_server.authn.tokens;
    let mut modify_resources = allowed(&lists.modify_resources);
    let mut previews = allowed(&lists.previews);
    if config.access.anonymous_writes {
        modify_resources.add_anonymous();
    }
    // Who may write a document may also ask what it would do.
    if config.access.anonymous_previews || config.access.anonymous_writes {
        previews.add_anonymous();
    }
    ApiConfig {
        read_only: config.api_server.read_only,
        present_as_kuma: config.api_server.present_as_kuma,
        authn: AuthnConfig { tokens: tokens.enabled, localhost_is_admin: config.api_server.authn.localhost_is_admin },
        access: AccessConfig {
            admin_resources: allowed(&lists.admin_resources),
            modify_resources,
            generate_dataplane_token: allowed(&lists.generate_dp_token),
            generate_user_token: allowed(&lists.generate_user_token),
            generate_zone_token: allowed(&lists.generate_zone_token),
            control_plane_metadata: allowed(&lists.control_plane_metadata),
            view_config_dump: allowed(&lists.view_config_dump),
            view_stats: allowed(&lists.view_stats),
            view_clusters: allowed(&lists.view_clusters),
            previews,
        },
        cors_allowed_domains: config.api_server.cors_allowed_domains.clone(),
        base_path: config.api_server.base_path.clone(),
        absence,
        issue: IssueConfig {
            user: tokens.enable_issuer,
            dataplane: config.dp_server.authn.enable_dataplane_token_issuer,
            zone: config.dp_server.authn.enable_zone_token_issuer,
        },
        calls: WhyContext { reachability: config.reachability.mode.into(), naming: naming(config), offline: false },
    }
}
/// Settings for `GET /config`, with those that clients of Kuma read and that have one value here.
fn shown(config: &Config) -> anyhow::Result<serde_json::Value> {
    let mut shown = serde_json::to_value(config)?;
    shown["mode"] = "zone".into();
    shown["environment"] = "universal".into();
    Ok(shown)
}
