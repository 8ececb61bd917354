//! Settings and their defaults. Keys equal those of Kuma where Kuma has the setting.

use std::{net::IpAddr, num::NonZero, path::PathBuf};

use anyhow::anyhow;
use kodiak_listen::ConnectionLimits;
use kodiak_model::GoDuration;
use kodiak_pool::PoolLimits;
use serde::{Deserialize, Serialize};

use crate::admin::Network;

use super::{ApiSocket, Certificates, Ipam, ListenerLimits, MeshService, Multizone, Reachability, Store, Traffic};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    pub general: General,
    pub store: Store,
    pub multizone: Multizone,
    pub api_server: ApiServer,
    pub dp_server: DpServer,
    pub xds_server: XdsServer,
    pub bootstrap_server: BootstrapServer,
    pub mesh_service: MeshService,
    pub ipam: Ipam,
    pub reachability: Reachability,
    pub traffic: Traffic,
    pub access: Access,
    pub certificates: Certificates,
    pub defaults: Defaults,
    pub diagnostics: Diagnostics,
    pub monitoring_assignment_server: MonitoringAssignmentServer,
    pub metrics: Metrics,
    pub log: Log,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct General {
    /// Working directory with the database, private keys and the certificate. `~/.kodiak` when empty.
    pub work_dir: PathBuf,
    /// Certificate of all servers. Issued at each start by a CA in the working directory, `kodiak.crt`, when empty.
    pub tls_cert_file: PathBuf,
    /// Private key of the certificate.
    pub tls_key_file: PathBuf,
    /// Further names and addresses of the certificate that is issued when no file is configured. It has the host name and
    /// the addresses of this machine, `localhost` and `bootstrapServer.params.xdsHost` in any case.
    pub certificate_names: Vec<String>,
    /// Folder of files that data sources of resources may reference. None when empty.
    pub data_source_folder: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiServer {
    pub http: Listener,
    pub https: Listener,
    pub socket: ApiSocket,
    pub authn: Authn,
    /// Refuses all writes.
    pub read_only: bool,
    /// Names `Kuma` and the version whose API this is as product and version in `GET /`, so that kumactl works without
    /// warnings. Our own name and version are always in its field `kodiak`.
    pub present_as_kuma: bool,
    /// Origins whose pages may call the API from a browser, such as `https://gui.example`.
    pub cors_allowed_domains: Vec<String>,
    /// Prefix of all paths of the REST API.
    pub base_path: String,
    /// Limits of each listener of the API.
    pub limits: ListenerLimits,
    pub computed: ComputedAnswers,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self {
            // Plain HTTP is served on loopback only; remote clients use HTTPS.
            http: Listener { enabled: true, interface: IpAddr::from([127, 0, 0, 1]), port: 5681 },
            https: Listener { enabled: true, interface: IpAddr::from([0, 0, 0, 0]), port: 5682 },
            socket: ApiSocket::default(),
            authn: Authn::default(),
            read_only: false,
            present_as_kuma: true,
            cors_allowed_domains: Vec::new(),
            base_path: "/".to_owned(),
            limits: ListenerLimits::of(&ConnectionLimits::api()),
            computed: ComputedAnswers::default(),
        }
    }
}

/// Answers that are computed from a whole mesh: lists, graphs, previews, discovery for Prometheus. Above these limits a
/// request is refused with 503 and `Retry-After`. Anonymous users have at most half of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ComputedAnswers {
    /// Answers that are computed at the same time. 0: half of the cores of the machine, at least 2 and at most 8.
    pub threads: usize,
    /// Requests that wait for a thread.
    pub queue: usize,
}

impl Default for ComputedAnswers {
    fn default() -> Self {
        Self { threads: 0, queue: PoolLimits::default().queue }
    }
}

impl ComputedAnswers {
    pub(crate) fn limits(&self) -> PoolLimits {
        let Self { threads, queue } = *self;
        let default = PoolLimits::default();
        PoolLimits { threads: NonZero::new(threads).unwrap_or(default.threads), queue, ..default }
    }
}

/// Port 0 lets the system choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Listener {
    /// Opens the port.
    pub enabled: bool,
    /// Address that the port is opened on.
    pub interface: IpAddr,
    /// 0 lets the system choose.
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Authn {
    /// Gives requests from this machine administrator rights, unless a browser or a proxy sends them.
    pub localhost_is_admin: bool,
    pub tokens: UserTokens,
}

impl Default for Authn {
    fn default() -> Self {
        Self { localhost_is_admin: true, tokens: UserTokens::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct UserTokens {
    /// Accepts user tokens.
    pub enabled: bool,
    /// Creates a token of the administrator and stores it as the GlobalSecret `admin-user-token`.
    pub bootstrap_admin_token: bool,
    /// Issues user tokens over the REST API.
    pub enable_issuer: bool,
}

impl Default for UserTokens {
    fn default() -> Self {
        Self { enabled: true, bootstrap_admin_token: true, enable_issuer: true }
    }
}

/// The port that proxies connect to, always over TLS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DpServer {
    /// Address that the port is opened on.
    pub interface: IpAddr,
    /// 0 lets the system choose.
    pub port: u16,
    pub authn: DpAuthn,
    pub hds: Hds,
    /// Networks such as `10.0.0.0/8`, in which the control plane reaches Envoy's admin interface of proxies that connect
    /// from another address: behind NAT or a load balancer.
    pub admin_networks: Vec<String>,
    pub limits: ListenerLimits,
}

impl DpServer {
    pub(crate) fn admin_networks(&self) -> anyhow::Result<Vec<Network>> {
        let parse = |text: &String| Network::parse(text).map_err(|error| anyhow!("dpServer.adminNetworks: {error}"));
        self.admin_networks.iter().map(parse).collect()
    }
}

impl Default for DpServer {
    fn default() -> Self {
        Self {
            interface: IpAddr::from([0, 0, 0, 0]),
            port: 5678,
            authn: DpAuthn::default(),
            hds: Hds::default(),
            admin_networks: Vec::new(),
            limits: ListenerLimits::of(&ConnectionLimits::proxies()),
        }
    }
}

/// Health checks that proxies run: of Envoy itself, and of workloads whose inbounds have a `serviceProbe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Hds {
    /// Enables the checks. Without them, inbounds with a `serviceProbe` need a `state`, unless their proxy registers them,
    /// and a proxy of kuma-dp that drains stays an endpoint until it ends.
    pub enabled: bool,
    /// Interval at which proxies report results. A proxy of kuma-dp that drains is an endpoint until its next report.
    pub interval: GoDuration,
    pub check_defaults: HdsCheck,
}

impl Default for Hds {
    fn default() -> Self {
        Self { enabled: true, interval: GoDuration::from_secs(2), check_defaults: HdsCheck::default() }
    }
}

/// Defaults of fields that a `serviceProbe` does not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct HdsCheck {
    pub timeout: GoDuration,
    pub interval: GoDuration,
    /// Interval of checks on endpoints without traffic, for probes without an `interval`.
    pub no_traffic_interval: GoDuration,
    pub healthy_threshold: u32,
    pub unhealthy_threshold: u32,
}

impl Default for HdsCheck {
    fn default() -> Self {
        Self {
            timeout: GoDuration::from_secs(2),
            interval: GoDuration::from_secs(1),
            no_traffic_interval: GoDuration::from_secs(1),
            healthy_threshold: 1,
            unhealthy_threshold: 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DpAuthn {
    pub dp_proxy: DpProxyAuthn,
    /// Issues dataplane tokens over the REST API.
    pub enable_dataplane_token_issuer: bool,
    /// Issues zone tokens over the REST API.
    pub enable_zone_token_issuer: bool,
}

impl Default for DpAuthn {
    fn default() -> Self {
        Self { dp_proxy: DpProxyAuthn::default(), enable_dataplane_token_issuer: true, enable_zone_token_issuer: true }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DpProxyAuthn {
    #[serde(rename = "type")]
    pub authn_type: DpProxyAuthnType,
}

/// Authentication of proxies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DpProxyAuthnType {
    #[default]
    DpToken,
    /// No authentication. For tests on a local machine only.
    None,
}

/// Settings of Dataplanes and their insights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct XdsServer {
    /// Time after which a Dataplane that its proxy registered is deleted when the proxy disconnected.
    pub dataplane_deregistration_delay_seconds: u32,
    /// Minimum time between two writes of the counters in insights.
    pub dataplane_status_flush_interval_seconds: u32,
    /// Time without a response after which a connection counts as closed.
    pub idle_timeout_seconds: u32,
    /// Time after which the Dataplane of an offline proxy is deleted.
    pub dataplane_cleanup_age_hours: u32,
    /// Format of the names of clusters of MeshServices, MeshExternalServices and MeshMultiZoneServices.
    pub resource_names: ResourceNames,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceNames {
    /// `<name>_<namespace>_<zone>_<mesh>_<kind>_<port>`.
    #[default]
    Kodiak,
    /// `<mesh>_<name>_<namespace>_<zone>_<kind>_<port>`.
    Kuma,
    /// `kri_<kind>_<mesh>_<zone>_<namespace>_<name>_<section>`.
    Kri,
}

impl Default for XdsServer {
    fn default() -> Self {
        Self {
            dataplane_deregistration_delay_seconds: 10,
            dataplane_status_flush_interval_seconds: 10,
            idle_timeout_seconds: 300,
            dataplane_cleanup_age_hours: 72,
            resource_names: ResourceNames::Kodiak,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct BootstrapServer {
    pub params: BootstrapParams,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct BootstrapParams {
    /// Host that proxies use for xDS. When empty, the host of their bootstrap request.
    pub xds_host: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Access {
    /// Lets anonymous users write all resources except Secrets, as in Kuma: every client that reaches the API controls the mesh.
    pub anonymous_writes: bool,
    /// Lets anonymous users ask what documents of theirs would do (`previews`). Also so with `anonymousWrites`.
    pub anonymous_previews: bool,
    #[serde(rename = "static")]
    pub lists: AccessLists,
}

/// Access lists of restricted actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AccessLists {
    /// Reading and writing Secrets.
    pub admin_resources: Allowed,
    /// Writing all other resources.
    pub modify_resources: Allowed,
    /// Issuing dataplane tokens.
    pub generate_dp_token: Allowed,
    /// Issuing user tokens.
    pub generate_user_token: Allowed,
    /// Issuing zone tokens.
    pub generate_zone_token: Allowed,
    /// Reading `/config`, `/policies` and `/_resources`.
    pub control_plane_metadata: Allowed,
    /// Viewing the configuration and the connection status of proxies, without private keys.
    pub view_config_dump: Allowed,
    /// Viewing statistics of proxies.
    pub view_stats: Allowed,
    /// Viewing clusters of proxies.
    pub view_clusters: Allowed,
    /// Asking what documents would do without storing them: checks of permissions, conversions, and, with `viewConfigDump`,
    /// diffs. Dry runs of writes need the right to write.
    pub previews: Allowed,
}

impl Default for AccessLists {
    fn default() -> Self {
        let admins =
            Allowed { users: vec!["mesh-system:admin".to_owned()], groups: vec!["mesh-system:admin".to_owned()] };
        let everyone = Allowed {
            users: Vec::new(),
            groups: vec!["mesh-system:unauthenticated".to_owned(), "mesh-system:authenticated".to_owned()],
        };
        let mut authenticated = admins.clone();
        authenticated.groups.push("mesh-system:authenticated".to_owned());
        Self {
            admin_resources: admins.clone(),
            modify_resources: authenticated.clone(),
            generate_dp_token: admins.clone(),
            generate_user_token: admins.clone(),
            generate_zone_token: admins.clone(),
            control_plane_metadata: everyone,
            view_config_dump: admins,
            view_stats: authenticated.clone(),
            view_clusters: authenticated.clone(),
            previews: authenticated,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Allowed {
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Defaults {
    /// Does not create the mesh `default` at the first start.
    pub skip_mesh_creation: bool,
    /// Does not create the default HostnameGenerators at the first start.
    pub skip_hostname_generators: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Diagnostics {
    /// Address that both ports are opened on.
    pub interface: IpAddr,
    /// `/healthy`, `/ready` and `/metrics`.
    pub server_port: u16,
    /// Port of `/healthy` and `/ready` alone, for probes: a flood of connections to other ports does not affect it.
    pub health_port: u16,
    /// Limits of `server_port`.
    pub limits: ListenerLimits,
}

impl Default for Diagnostics {
    fn default() -> Self {
        Self {
            interface: IpAddr::from([0, 0, 0, 0]),
            server_port: 5680,
            health_port: 5689,
            limits: ListenerLimits::of(&ConnectionLimits::diagnostics()),
        }
    }
}

/// Discovery of proxies for Prometheus (MADS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MonitoringAssignmentServer {
    pub enabled: bool,
    /// Address that the port is opened on. It needs no authentication: it has names, tags and addresses of proxies.
    pub interface: IpAddr,
    pub port: u16,
    /// How long a request waits for a change when it sets no `fetch-timeout`. At most 5 minutes.
    pub default_fetch_timeout: GoDuration,
    pub limits: ListenerLimits,
}

impl Default for MonitoringAssignmentServer {
    fn default() -> Self {
        Self {
            enabled: true,
            interface: IpAddr::from([0, 0, 0, 0]),
            port: 5676,
            default_fetch_timeout: GoDuration::from_secs(30),
            limits: ListenerLimits::of(&ConnectionLimits::monitoring()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Metrics {
    /// Serves the metrics of Kuma's dashboards under Kuma's names, beside our own.
    pub kuma_names: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { kuma_names: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Log {
    /// `info`, `debug`, or a filter such as `info,kodiak_store=debug`.
    pub level: String,
    /// Format of the log.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    Text,
    Json,
}
