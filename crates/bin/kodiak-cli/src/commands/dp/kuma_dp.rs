//! Flags and variables of kuma-dp 2.14: synonyms of ours, and those without effect here.

use std::path::PathBuf;
use std::str::FromStr;

use kodiak_model::GoDuration;
use kodiak_terminal::usage;

/// Flags of kuma-dp that have another name here, or none.
#[derive(clap::Args)]
#[command(next_help_heading = "Flags of kuma-dp")]
pub(super) struct KumaDpArgs {
    /// As --envoy; a name without a folder is looked up in PATH
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with = "envoy")]
    pub(super) binary_path: Option<PathBuf>,

    /// The Dataplane as text, instead of --dataplane-file
    #[arg(long, hide_short_help = true, value_name = "TEXT", conflicts_with = "dataplane_file")]
    pub(super) dataplane: Option<String>,

    /// The token as text; others on this machine can see it in the process list: use --dataplane-token-file
    #[arg(long, hide_short_help = true, value_name = "TOKEN", conflicts_with = "dataplane_token_file")]
    pub(super) dataplane_token: Option<String>,

    /// Only `dataplane`: zone ingresses and egresses are not supported yet
    #[arg(long, hide_short_help = true, value_name = "TYPE")]
    pub(super) proxy_type: Option<String>,

    /// As --work-dir
    #[arg(long, hide_short_help = true, value_name = "DIR", conflicts_with = "work_dir")]
    pub(super) config_dir: Option<PathBuf>,

    /// Levels of Envoy's components, such as `upstream:debug,http:trace`
    #[arg(long, hide_short_help = true, value_name = "LEVELS")]
    pub(super) envoy_component_log_level: Option<String>,

    /// `false` disables the DNS server
    #[arg(long, hide_short_help = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) dns_enabled: Option<bool>,

    /// As --dns-port
    #[arg(long, hide_short_help = true, value_name = "PORT", conflicts_with = "dns_port")]
    pub(super) dns_coredns_port: Option<u16>,

    /// Configuration of the transparent proxy: ports of `redirect`, and `ipFamilyMode`
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(super) transparent_proxy_config: Option<PathBuf>,

    /// Bind outbounds to their virtual addresses, for destinations without transparent proxy
    #[arg(long, hide_short_help = true)]
    pub(super) bind_outbounds: bool,

    /// Certificate of the listener with metrics
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "metrics_key_path")]
    pub(super) metrics_cert_path: Option<PathBuf>,

    /// Private key of that certificate
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "metrics_cert_path")]
    pub(super) metrics_key_path: Option<PathBuf>,

    /// Refused: the certificate of the control plane is always verified
    #[arg(long, hide_short_help = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_verify: Option<bool>,

    /// Without effect: Envoy answers no DNS here
    #[arg(long, hide_short_help = true, value_name = "PORT")]
    dns_envoy_port: Option<String>,

    /// Without effect: there is no CoreDNS
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    dns_coredns_path: Option<String>,

    /// Without effect: there is no CoreDNS
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    dns_coredns_config_template_path: Option<String>,

    /// Without effect: there is no CoreDNS
    #[arg(long, hide_short_help = true, value_name = "DIR")]
    dns_server_config_dir: Option<String>,

    /// Without effect: there is no CoreDNS
    #[arg(long, hide_short_help = true, value_name = "PORT")]
    dns_prometheus_port: Option<String>,

    /// Without effect: there is no CoreDNS
    #[arg(long, hide_short_help = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dns_enable_logging: Option<String>,
}

/// Variables of kuma-dp without effect, the value that changes nothing, and the reason.
const WITHOUT_EFFECT: &[(&str, &str, &str)] = &[
    ("KUMA_CONTROL_PLANE_RETRY_MAX_DURATION", "", "the control plane is retried without end"),
    ("KUMA_DNS_ENVOY_DNS_PORT", "", "Envoy answers no DNS"),
    ("KUMA_DNS_CORE_DNS_BINARY_PATH", "", "there is no CoreDNS"),
    ("KUMA_DNS_CORE_DNS_CONFIG_TEMPLATE_PATH", "", "there is no CoreDNS"),
    ("KUMA_DNS_CONFIG_DIR", "", "there is no CoreDNS"),
    ("KUMA_DNS_PROMETHEUS_PORT", "", "there is no CoreDNS"),
    ("KUMA_DNS_ENABLE_LOGGING", "false", "there is no CoreDNS"),
    ("KUMA_DATAPLANE_RUNTIME_SOCKET_DIR", "", "sockets are in the folder of --work-dir"),
    ("KUMA_DATAPLANE_RUNTIME_DYNAMIC_CONFIGURATION_REFRESH_INTERVAL", "", "names are refreshed every second"),
    (
        "KUMA_DATAPLANE_RUNTIME_UNIFIED_RESOURCE_NAMING_ENABLED",
        "false",
        "xdsServer.resourceNames of the control plane decides",
    ),
    ("KUMA_DATAPLANE_RUNTIME_STRICT_INBOUND_PORTS_ENABLED", "true", "it is always on"),
    ("KUMA_DATAPLANE_RUNTIME_REUSE_PORT_ENABLED", "true", "it is always on"),
    ("KUMA_DATAPLANE_RUNTIME_OTEL_PIPE_ENABLED", "false", "OpenTelemetry through the sidecar is not supported"),
    ("KUMA_APPLICATION_PROBE_PROXY_PORT", "0", "probes of Kubernetes are not supported"),
];

impl KumaDpArgs {
    /// Refuses what is not supported, and warns of flags and variables without effect.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let skip_verify = variable("KUMA_CONTROL_PLANE_TLS_SKIP_VERIFY")?;
        if self.skip_verify.or(skip_verify) == Some(true) {
            return Err(usage(
                "--skip-verify is not supported: the certificate of the control plane is always verified; pass its CA with \
                 --ca-cert-file FILE. A control plane with a self-signed certificate has it in its work folder, Kodiak as \
                 kodiak.crt, Kuma as kuma-cp.crt",
            ));
        }
        match self.proxy_type.clone().or(variable("KUMA_DATAPLANE_PROXY_TYPE")?).as_deref() {
            None | Some("dataplane") => (),
            Some(kind @ ("ingress" | "egress")) => {
                return Err(usage(format!("--proxy-type {kind} is not supported yet; a proxy is a dataplane")));
            }
            Some(other) => return Err(usage(format!("--proxy-type {other:?} must be dataplane"))),
        }
        if self.dataplane_token.is_some() {
            tracing::warn!("--dataplane-token is visible in the process list; use --dataplane-token-file");
        }
        for (flag, given) in self.flags_without_effect() {
            if given {
                tracing::warn!(flag, "flag of kuma-dp without effect: DNS is answered by this process");
            }
        }
        for (name, usual, why) in WITHOUT_EFFECT {
            if let Some(value) = variable::<String>(name)?
                && value != *usual
            {
                tracing::warn!(variable = name, why, "variable of kuma-dp without effect");
            }
        }
        Ok(())
    }

    fn flags_without_effect(&self) -> [(&'static str, bool); 6] {
        [
            ("--dns-envoy-port", self.dns_envoy_port.is_some()),
            ("--dns-coredns-path", self.dns_coredns_path.is_some()),
            ("--dns-coredns-config-template-path", self.dns_coredns_config_template_path.is_some()),
            ("--dns-server-config-dir", self.dns_server_config_dir.is_some()),
            ("--dns-prometheus-port", self.dns_prometheus_port.is_some()),
            ("--dns-enable-logging", self.dns_enable_logging.is_some()),
        ]
    }

    /// Port of DNS, where flags or variables of kuma-dp set it; 0 disables it.
    pub(super) fn dns_port(&self) -> anyhow::Result<Option<u16>> {
        if self.dns_enabled.or(variable("KUMA_DNS_ENABLED")?) == Some(false) {
            return Ok(Some(0));
        }
        let embedded = variable("KUMA_DNS_PROXY_PORT")?.filter(|port| *port != 0);
        Ok(self.dns_coredns_port.or(embedded))
    }

    /// Envoy program; a name without a folder is looked up in PATH.
    pub(super) fn program(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(program) = self.binary_path.clone().or(variable("KUMA_DATAPLANE_RUNTIME_BINARY_PATH")?) else {
            return Ok(None);
        };
        if program.components().count() > 1 {
            return Ok(Some(program));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|program| program.is_file());
        found.map(Some).ok_or_else(|| usage(format!("--binary-path {} is not in PATH", program.display())))
    }

    /// PEM of the CA, or the file with it, from variables of kuma-dp.
    pub(super) fn ca_pem() -> anyhow::Result<Option<Vec<u8>>> {
        Ok(variable::<String>("KUMA_CONTROL_PLANE_CA_CERT")?.map(String::into_bytes))
    }

    /// Delay between two requests for the bootstrap.
    pub(super) fn retry_every() -> anyhow::Result<Option<std::time::Duration>> {
        duration("KUMA_CONTROL_PLANE_RETRY_BACKOFF")
    }
}

/// Value of a variable of kuma-dp; an empty one is not set.
pub(super) fn variable<T: FromStr>(name: &str) -> anyhow::Result<Option<T>> {
    let Some(text) = std::env::var(name).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| usage(format!("{name} is {text:?}, which is not valid")))
}

/// Positive duration of a variable.
pub(super) fn duration(name: &str) -> anyhow::Result<Option<std::time::Duration>> {
    let Some(text) = variable::<String>(name)? else { return Ok(None) };
    let parsed = GoDuration::parse(&text).map_err(|error| usage(format!("{name}: {error}")))?;
    parsed.to_std().map(Some).ok_or_else(|| usage(format!("{name} must not be negative")))
}

/// The given value, or that of a variable of kuma-dp.
pub(super) fn or_variable<T: FromStr>(given: Option<T>, name: &str) -> anyhow::Result<Option<T>> {
    if given.is_some() { Ok(given) } else { variable(name) }
}
