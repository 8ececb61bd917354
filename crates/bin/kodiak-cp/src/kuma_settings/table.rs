//! The table of Kuma's settings: path, variable where it does not follow from the path, and its use here.

use super::Meaning::{As, Ignored, Only, Same};
use super::convert::{as_it_is, hours, origins, postgres_tls, proxy_authentication, reachability, seconds, store_type};
use super::{KumaSetting, Meaning};

/// Starts of variables that do not follow from a section.
pub(super) const IRREGULAR_SECTIONS: &[&str] = &["KUMA_XDS_", "KUMA_DNS_SERVICE_", "KUMA_PLUGIN_POLICIES_"];

const ZONES: &str = "not supported: several zones";
const KUBERNETES: &str = "not supported: Kubernetes";
const GUI: &str = "not supported: the GUI";
const PLAIN_MADS: &str = "monitoring assignments are served without TLS";
const TRACING: &str = "not supported: traces of the control plane";
const EVENTS: &str = "not needed: changes are event-driven";
const IN_MEMORY: &str = "not needed: reads are served from memory";
const POOL: &str = "not needed: a control plane uses few connections to PostgreSQL";
const LIMITS: &str = "not needed: every connection has fixed limits of time";
const SHARED_STORE: &str = "not needed: control planes share the store, and do not call each other";
const BY_THE_PROXY: &str = "not needed: `kodiak dp run` sets it";
const ALL_KINDS: &str = "not supported: all kinds are enabled";

const ONE_CERTIFICATE: &str = "all ports have the certificate of general.tlsCertFile and general.tlsKeyFile";
const CLIENT_CERTIFICATES: &str = "clients authenticate with tokens, not with certificates";
const LOWEST_TLS: &str = "all ports accept TLS 1.2 and 1.3";
const CIPHERS: &str = "the cipher suites are those that rustls considers secure";
const OFFLINE_KEYS: &str = "tokens are verified with the signing keys in the store";
const PLAIN_DIAGNOSTICS: &str = "health and metrics are served without TLS";
const FIXED_NAMES: &str = "names of kuma.io/service tags are <service>.mesh on port 80, with addresses of 240.0.0.0/4";

const TLS_MIN: Meaning = Only(&["TLSv1_2"], LOWEST_TLS);
const TLS_MAX: Meaning = Only(&["TLSv1_3"], LOWEST_TLS);
const TLS_CIPHERS: Meaning = Only(&[], CIPHERS);
const TLS_FILE: Meaning = Only(&[], ONE_CERTIFICATE);

const fn setting(path: &'static str, meaning: Meaning) -> KumaSetting {
    KumaSetting { path, variable: "", meaning }
}

/// With a variable that does not follow from the path.
const fn named(path: &'static str, variable: &'static str, meaning: Meaning) -> KumaSetting {
    KumaSetting { path, variable, meaning }
}

pub(crate) const SETTINGS: &[KumaSetting] = &[
    setting("environment", Only(&["universal"], "Kodiak runs on Universal, not on Kubernetes")),
    setting("mode", Only(&["zone", "standalone"], "a control plane serves one zone, and there is no global one")),
    // Store.
    setting("store.type", As("store.type", store_type)),
    setting("store.kubernetes.*", Ignored(KUBERNETES)),
    setting("store.postgres.host", Same),
    setting("store.postgres.port", Same),
    setting("store.postgres.user", Same),
    setting("store.postgres.password", Same),
    setting("store.postgres.dbName", Same),
    setting("store.postgres.driverName", Ignored("not needed: there is one driver")),
    setting("store.postgres.connectionTimeout", Ignored(POOL)),
    setting("store.postgres.maxConnectionIdleTime", Ignored(POOL)),
    setting("store.postgres.maxConnectionLifetime", Ignored(POOL)),
    setting("store.postgres.maxConnectionLifetimeJitter", Ignored(POOL)),
    setting("store.postgres.healthCheckInterval", Ignored(POOL)),
    setting("store.postgres.minOpenConnections", Ignored(POOL)),
    setting("store.postgres.maxOpenConnections", Ignored(POOL)),
    setting("store.postgres.maxIdleConnections", Ignored(POOL)),
    setting("store.postgres.minReconnectInterval", Ignored(POOL)),
    setting("store.postgres.maxReconnectInterval", Ignored(POOL)),
    setting("store.postgres.maxListQueryElements", Ignored(IN_MEMORY)),
    setting("store.postgres.tls.mode", As("store.postgres.tls.mode", postgres_tls)),
    setting("store.postgres.tls.certPath", Only(&[], "PostgreSQL clients authenticate with a password")),
    setting("store.postgres.tls.keyPath", Only(&[], "PostgreSQL clients authenticate with a password")),
    named("store.postgres.tls.caPath", "KUMA_STORE_POSTGRES_TLS_ROOT_CERT_PATH", Same),
    named(
        "store.postgres.tls.disableSSLSNI",
        "KUMA_STORE_POSTGRES_TLS_DISABLE_SSLSNI",
        Only(&["false"], "TLS connections to PostgreSQL have an SNI"),
    ),
    setting("store.postgres.readReplica.*", Ignored(IN_MEMORY)),
    setting("store.cache.enabled", Ignored(IN_MEMORY)),
    setting("store.cache.expirationTime", Ignored(IN_MEMORY)),
    setting("store.upsert.conflictRetryBaseBackoff", Ignored("not needed: a conflict is resolved at once")),
    setting("store.upsert.conflictRetryMaxTimes", Ignored("not needed: a conflict is resolved at once")),
    setting("store.upsert.conflictRetryJitterPercent", Ignored("not needed: a conflict is resolved at once")),
    setting("store.unsafeDelete", Same),
    // Bootstrap of proxies.
    setting("bootstrapServer.params.adminAddress", Ignored("not needed: Envoy's admin API is on a Unix socket")),
    setting("bootstrapServer.params.adminPort", Ignored("not needed: Envoy's admin API is on a Unix socket")),
    setting("bootstrapServer.params.envoyAdminUnixSocket", Only(&["true"], "Envoy's admin API is on a Unix socket")),
    setting("bootstrapServer.params.readinessPort", Ignored(BY_THE_PROXY)),
    setting("bootstrapServer.params.adminAccessLogPath", Ignored("not supported: an access log of Envoy's admin API")),
    setting("bootstrapServer.params.corefileTemplatePath", Ignored("not needed: `kodiak dp run` answers DNS itself")),
    setting("bootstrapServer.params.xdsHost", Same),
    setting(
        "bootstrapServer.params.xdsPort",
        Only(&["0"], "proxies connect to dpServer.port; forward another port to it"),
    ),
    setting("bootstrapServer.params.xdsConnectTimeout", Ignored("not supported: the timeout is fixed")),
    // xDS.
    setting("xdsServer.dataplaneConfigurationRefreshInterval", Ignored(EVENTS)),
    setting("xdsServer.dataplaneStatusFlushInterval", As("xdsServer.dataplaneStatusFlushIntervalSeconds", seconds)),
    setting("xdsServer.nackBackoff", Ignored("not needed: a rejected version is not sent again")),
    named(
        "xdsServer.dataplaneDeregistrationDelay",
        "KUMA_XDS_DATAPLANE_DEREGISTRATION_DELAY",
        As("xdsServer.dataplaneDeregistrationDelaySeconds", seconds),
    ),
    // REST API.
    setting("apiServer.http.enabled", Same),
    setting("apiServer.http.interface", Same),
    setting("apiServer.http.port", Same),
    setting("apiServer.https.enabled", Same),
    setting("apiServer.https.interface", Same),
    setting("apiServer.https.port", Same),
    setting("apiServer.https.tlsCertFile", TLS_FILE),
    setting("apiServer.https.tlsKeyFile", TLS_FILE),
    named("apiServer.https.tlsCaFile", "KUMA_API_SERVER_HTTPS_CLIENT_CERTS_CA_FILE", Only(&[], CLIENT_CERTIFICATES)),
    setting("apiServer.https.tlsMinVersion", TLS_MIN),
    setting("apiServer.https.tlsMaxVersion", TLS_MAX),
    setting("apiServer.https.tlsCipherSuites", TLS_CIPHERS),
    setting("apiServer.https.requireClientCert", Only(&["false"], CLIENT_CERTIFICATES)),
    setting("apiServer.auth.clientCertsDir", Only(&[], CLIENT_CERTIFICATES)),
    setting("apiServer.authn.type", Only(&["tokens"], CLIENT_CERTIFICATES)),
    setting("apiServer.authn.localhostIsAdmin", Same),
    setting("apiServer.authn.tokens.bootstrapAdminToken", Same),
    setting("apiServer.authn.tokens.enableIssuer", Same),
    setting("apiServer.authn.tokens.validator.useSecrets", Only(&["true"], OFFLINE_KEYS)),
    setting("apiServer.authn.tokens.validator.publicKeys", Only(&[], OFFLINE_KEYS)),
    setting("apiServer.readOnly", Same),
    setting("apiServer.corsAllowedDomains", As("apiServer.corsAllowedDomains", origins)),
    setting("apiServer.basePath", Same),
    setting("apiServer.rootUrl", Ignored(GUI)),
    setting("apiServer.gui.*", Ignored(GUI)),
    setting("apiServer.readHeaderTimeout", Ignored(LIMITS)),
    setting("apiServer.readTimeout", Ignored(LIMITS)),
    setting("apiServer.writeTimeout", Ignored(LIMITS)),
    setting("apiServer.idleTimeout", As("apiServer.limits.idleTimeout", as_it_is)),
    // Port of proxies.
    setting("dpServer.port", Same),
    setting("dpServer.tlsCertFile", TLS_FILE),
    setting("dpServer.tlsKeyFile", TLS_FILE),
    setting("dpServer.tlsMinVersion", TLS_MIN),
    setting("dpServer.tlsMaxVersion", TLS_MAX),
    setting("dpServer.tlsCipherSuites", TLS_CIPHERS),
    setting("dpServer.readHeaderTimeout", Ignored(LIMITS)),
    setting("dpServer.gracefulShutdownTimeout", Ignored(LIMITS)),
    setting("dpServer.authn.dpProxy.type", As("dpServer.authn.dpProxy.type", proxy_authentication)),
    setting("dpServer.authn.dpProxy.dpToken.enableIssuer", As("dpServer.authn.enableDataplaneTokenIssuer", as_it_is)),
    setting("dpServer.authn.dpProxy.dpToken.validator.useSecrets", Only(&["true"], OFFLINE_KEYS)),
    setting("dpServer.authn.dpProxy.dpToken.validator.publicKeys", Only(&[], OFFLINE_KEYS)),
    setting("dpServer.authn.zoneProxy.type", Only(&["zoneToken"], "zone proxies authenticate with zone tokens")),
    setting("dpServer.authn.zoneProxy.zoneToken.enableIssuer", As("dpServer.authn.enableZoneTokenIssuer", as_it_is)),
    setting("dpServer.authn.zoneProxy.zoneToken.validator.useSecrets", Only(&["true"], OFFLINE_KEYS)),
    setting("dpServer.authn.zoneProxy.zoneToken.validator.publicKeys", Only(&[], OFFLINE_KEYS)),
    setting(
        "dpServer.authn.enableReloadableTokens",
        Only(&["false"], "a proxy reads its token when it starts; restart it to use another one"),
    ),
    setting("dpServer.hds.enabled", Same),
    setting("dpServer.hds.interval", Same),
    setting("dpServer.hds.refreshInterval", Ignored(EVENTS)),
    named("dpServer.hds.checkDefaults.timeout", "KUMA_DP_SERVER_HDS_CHECK_TIMEOUT", Same),
    named("dpServer.hds.checkDefaults.interval", "KUMA_DP_SERVER_HDS_CHECK_INTERVAL", Same),
    named("dpServer.hds.checkDefaults.noTrafficInterval", "KUMA_DP_SERVER_HDS_CHECK_NO_TRAFFIC_INTERVAL", Same),
    named("dpServer.hds.checkDefaults.healthyThreshold", "KUMA_DP_SERVER_HDS_CHECK_HEALTHY_THRESHOLD", Same),
    named("dpServer.hds.checkDefaults.unhealthyThreshold", "KUMA_DP_SERVER_HDS_CHECK_UNHEALTHY_THRESHOLD", Same),
    // General.
    setting("general.tlsCertFile", Same),
    setting("general.tlsKeyFile", Same),
    setting("general.workDir", Same),
    setting("general.tlsMinVersion", TLS_MIN),
    setting("general.tlsMaxVersion", TLS_MAX),
    setting("general.tlsCipherSuites", TLS_CIPHERS),
    named("general.dnsCacheTTL", "KUMA_GENERAL_DNS_CACHE_TTL", Ignored("not needed: names resolve every 10 seconds")),
    setting("general.resilientComponentBaseBackoff", Ignored("not needed: a failed task ends the process")),
    setting("general.resilientComponentMaxBackoff", Ignored("not needed: a failed task ends the process")),
    // Zones.
    setting("multizone.zone.name", Same),
    setting(
        "multizone.zone.globalAddress",
        Only(&[], "several zones: resources of the global control plane would be missing here"),
    ),
    setting("multizone.zone.kds.*", Ignored(ZONES)),
    setting("multizone.zone.disableOriginLabelValidation", Ignored(ZONES)),
    setting("multizone.zone.ingressUpdateInterval", Ignored(ZONES)),
    setting("multizone.global.*", Ignored(ZONES)),
    setting("interCp.*", Ignored(SHARED_STORE)),
    // Names and addresses.
    setting("dnsServer.domain", Only(&["mesh"], FIXED_NAMES)),
    named("dnsServer.CIDR", "KUMA_DNS_SERVER_CIDR", Only(&["240.0.0.0/4"], FIXED_NAMES)),
    setting("dnsServer.serviceVipEnabled", Only(&["true"], FIXED_NAMES)),
    named("dnsServer.serviceVipPort", "KUMA_DNS_SERVICE_SERVICE_VIP_PORT", Only(&["80"], FIXED_NAMES)),
    setting("ipam.meshService.cidr", Same),
    setting("ipam.meshExternalService.cidr", Same),
    setting("ipam.meshMultiZoneService.cidr", Same),
    setting("ipam.allocationInterval", Ignored(EVENTS)),
    named("ipam.knownInternalCIDRs", "KUMA_IPAM_KNOWN_INTERNAL_CIDRS", Ignored("not supported: the list is fixed")),
    // Services and other resources.
    setting("meshService.generationInterval", Ignored(EVENTS)),
    setting("meshService.deletionGracePeriod", Same),
    setting("meshService.labelPropagation.enabled", Same),
    setting("meshService.labelPropagation.allowedLabelKeys", Same),
    setting("coreResources.status.meshServiceInterval", Ignored(EVENTS)),
    setting("coreResources.status.meshMultiZoneServiceInterval", Ignored(EVENTS)),
    setting("coreResources.status.meshIdentityInterval", Ignored(EVENTS)),
    setting("coreResources.status.workloadInterval", Ignored(EVENTS)),
    setting("coreResources.enabled", Ignored(ALL_KINDS)),
    named("policies.pluginPoliciesEnabled", "KUMA_PLUGIN_POLICIES_ENABLED", Ignored(ALL_KINDS)),
    setting("defaults.skipMeshCreation", Same),
    setting("defaults.skipHostnameGenerators", Same),
    named(
        "defaults.SkipHostnameGenerators",
        "KUMA_DEFAULTS_SKIP_HOSTNAME_GENERATORS",
        As("defaults.skipHostnameGenerators", as_it_is),
    ),
    setting(
        "defaults.skipTenantResources",
        Ignored("not supported: use skipMeshCreation and skipHostnameGenerators of defaults"),
    ),
    setting("defaults.createMeshRoutingResources", Ignored("not supported: TrafficPermission and TrafficRoute")),
    // Status, health and metrics.
    setting("metrics.dataplane.subscriptionLimit", Ignored("not supported: an insight has the last two connections")),
    setting("metrics.dataplane.idleTimeout", As("xdsServer.idleTimeoutSeconds", seconds)),
    setting("metrics.zone.*", Ignored(ZONES)),
    setting("metrics.mesh.*", Ignored(EVENTS)),
    setting("metrics.controlPlane.reportResourcesCount", Ignored("not needed: the metric is always there")),
    setting("runtime.universal.dataplaneCleanupAge", As("xdsServer.dataplaneCleanupAgeHours", hours)),
    setting("runtime.universal.zoneResourceCleanupAge", Ignored(ZONES)),
    named("runtime.universal.vipRefreshInterval", "KUMA_RUNTIME_UNIVERSAL_VIP_REFRESH_INTERVAL", Ignored(EVENTS)),
    setting("runtime.universal.workload.generationInterval", Ignored(EVENTS)),
    setting("runtime.kubernetes.*", Ignored(KUBERNETES)),
    named("runtime.kubernetes.injector.*", "KUMA_INJECTOR", Ignored(KUBERNETES)),
    setting("diagnostics.serverPort", Same),
    setting("diagnostics.debugEndpoints", Only(&["false"], "there are no debug endpoints of Go")),
    setting("diagnostics.tlsEnabled", Only(&["false"], PLAIN_DIAGNOSTICS)),
    setting("diagnostics.tlsCertFile", Only(&[], PLAIN_DIAGNOSTICS)),
    setting("diagnostics.tlsKeyFile", Only(&[], PLAIN_DIAGNOSTICS)),
    setting("diagnostics.tlsMinVersion", Ignored(PLAIN_DIAGNOSTICS)),
    setting("diagnostics.tlsMaxVersion", Ignored(PLAIN_DIAGNOSTICS)),
    setting("diagnostics.tlsCipherSuites", Ignored(PLAIN_DIAGNOSTICS)),
    setting("monitoringAssignmentServer.port", Same),
    setting("monitoringAssignmentServer.defaultFetchTimeout", Same),
    setting("monitoringAssignmentServer.apiVersions", Ignored("not needed: there is one version, v1")),
    setting("monitoringAssignmentServer.assignmentRefreshInterval", Ignored(EVENTS)),
    setting("monitoringAssignmentServer.tlsEnabled", Only(&["false"], PLAIN_MADS)),
    setting("monitoringAssignmentServer.tlsCertFile", Only(&[], PLAIN_MADS)),
    setting("monitoringAssignmentServer.tlsKeyFile", Only(&[], PLAIN_MADS)),
    setting("monitoringAssignmentServer.tlsMinVersion", Ignored(PLAIN_MADS)),
    setting("monitoringAssignmentServer.tlsMaxVersion", Ignored(PLAIN_MADS)),
    setting("monitoringAssignmentServer.tlsCipherSuites", Ignored(PLAIN_MADS)),
    setting("reports.enabled", Ignored("not needed: no usage is reported")),
    named("tracing.openTelemetry.*", "KUMA_TRACING_OPENTELEMETRY", Ignored(TRACING)),
    // Access.
    setting("access.type", Only(&["static"], "access control has static lists")),
    setting("access.static.adminResources.users", Same),
    setting("access.static.adminResources.groups", Same),
    setting("access.static.generateDpToken.users", Same),
    setting("access.static.generateDpToken.groups", Same),
    setting("access.static.generateUserToken.users", Same),
    setting("access.static.generateUserToken.groups", Same),
    setting("access.static.generateZoneToken.users", Same),
    setting("access.static.generateZoneToken.groups", Same),
    named("access.static.viewConfigDump.users", "KUMA_ACCESS_STATIC_GET_CONFIG_DUMP_USERS", Same),
    named("access.static.viewConfigDump.groups", "KUMA_ACCESS_STATIC_GET_CONFIG_DUMP_GROUPS", Same),
    setting("access.static.viewStats.users", Same),
    setting("access.static.viewStats.groups", Same),
    setting("access.static.viewClusters.users", Same),
    setting("access.static.viewClusters.groups", Same),
    setting("access.static.controlPlaneMetadata.users", Same),
    setting("access.static.controlPlaneMetadata.groups", Same),
    // Others.
    setting("experimental.autoReachableServices", As("reachability.mode", reachability)),
    setting("experimental.deltaXds", Ignored(BY_THE_PROXY)),
    setting("experimental.inboundTagsDisabled", Ignored("not supported: tags of inbounds are optional")),
    setting("experimental.ingressTagFilters", Ignored(ZONES)),
    setting("experimental.kdsEventBasedWatchdog.*", Ignored(ZONES)),
    named("experimental.kubeOutboundsAsVIPs", "KUMA_EXPERIMENTAL_KUBE_OUTBOUNDS_AS_VIPS", Ignored(KUBERNETES)),
    setting("experimental.sidecarContainers", Ignored(KUBERNETES)),
    setting("experimental.useTagFirstVirtualOutboundModel", Ignored("not needed: addresses are stored compactly")),
    setting("experimental.generateMeshServices", Ignored("not needed: the mode of a mesh decides")),
    named("experimental.skipPersistedVIPs", "KUMA_EXPERIMENTAL_SKIP_PERSISTED_VIPS", Ignored("not supported")),
    setting("proxy.gateway.globalDownstreamMaxConnections", Ignored("not supported: built-in gateways")),
    setting("eventBus.bufferSize", Ignored("not needed: changes are not buffered as events")),
];
