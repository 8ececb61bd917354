//! `kodiak dp run`: runs one sidecar until a signal. The code of the sidecar is in `kodiak-dp`.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use kodiak_dp::envoy::{Environment, find};
use kodiak_dp::run::{Discovery, Dns, Options, Proxy, RunError, Runner, Token, TransparentProxy};
use kodiak_dp::system_ca;
use kodiak_model::GoDuration;
use kodiak_terminal::{Exit, Signals, usage};

use super::dataplane::{self, Source};
use super::kuma_dp::{KumaDpArgs, duration, or_variable, variable};
use super::transparent_proxy_config::TransparentProxyConfig;
use crate::session::Session;

/// Default address of a control plane on this machine, for proxies.
const LOCAL: &str = "https://localhost:5678";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const READINESS_PORT: u16 = 9902;
const DNS_PORT: u16 = 15053;
const INBOUND_PORT: u16 = 15006;
const OUTBOUND_PORT: u16 = 15001;
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// Log levels of Envoy.
const LEVELS: [&str; 8] = ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];
/// Larger files hold no token.
const LONGEST_TOKEN: u64 = 64 << 10;

#[derive(clap::Args)]
#[command(after_help = "\
Gets the bootstrap from the control plane, waiting for it if necessary, starts Envoy, and exits with it. On SIGTERM or
SIGINT it drains: it fails readiness, notifies the control plane, waits for --drain-time, and stops Envoy; a second
signal ends the wait. Flags of kuma-dp are understood, too: `--help` lists them. Environment variables of kuma-dp (KUMA_…)
are used if those of Kodiak (KODIAK_…) are not set.

The certificate of the control plane is always verified. A control plane with a self-signed certificate has it as
kodiak.crt in its data directory (Kuma: kuma-cp.crt): copy that file to this machine and pass it with --ca-cert-file.

Examples:
  kodiak generate dataplane-token --mesh default --name web-1 --valid-for 720h > token
  kodiak dp run -d web.yaml --dataplane-token-file token --ca-cert-file ~/.kodiak/kodiak.crt
  kodiak dp run -d web.yaml -v name=web-2 -v address=10.0.0.2 --dataplane-token-file token --ca-cert-file ca.pem
  kodiak dp run --mesh default --name web-1 --dataplane-token-file token --ca-cert-file ca.pem   for a Dataplane that is applied
  kodiak dp run -d web.yaml --transparent-proxy …     see `kodiak install transparent-proxy --help`
  curl -fsS localhost:9902/ready                      readiness

Exit codes: as for all commands; that of Envoy if Envoy exits by itself, or 128 plus the number of its signal.")]
pub(crate) struct Args {
    /// Address of the control plane for proxies [default: https://localhost:5678]
    #[arg(long, value_name = "URL", env = "KODIAK_CONTROL_PLANE_URL")]
    cp_address: Option<String>,

    /// CA certificates that verify the control plane (PEM)
    #[arg(long, value_name = "FILE", env = "KODIAK_CONTROL_PLANE_CA_CERT_FILE")]
    ca_cert_file: Option<PathBuf>,

    /// File with the Dataplane, or - for standard input
    #[arg(short, long, value_name = "FILE|-", env = "KODIAK_DATAPLANE_RUNTIME_RESOURCE_PATH")]
    dataplane_file: Option<PathBuf>,

    /// Value for the placeholder `{{ KEY }}` in that file. May be repeated
    #[arg(short = 'v', long, value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    dataplane_var: Vec<(String, String)>,

    /// File with the token of this proxy
    #[arg(long, value_name = "FILE", env = "KODIAK_DATAPLANE_RUNTIME_TOKEN_PATH")]
    dataplane_token_file: Option<PathBuf>,

    /// Name of a Dataplane in the control plane, instead of --dataplane-file
    #[arg(long, env = "KODIAK_DATAPLANE_NAME")]
    name: Option<String>,

    /// Mesh of that Dataplane [default: default]
    #[arg(long, env = "KODIAK_DATAPLANE_MESH")]
    mesh: Option<String>,

    /// Envoy binary [default: that of `kodiak dp install-envoy`, or from PATH]
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,

    /// Worker threads of Envoy [default: one per core]
    #[arg(long, alias = "cpu", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Folder for the bootstrap and sockets of this proxy [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,

    /// Time for connections to drain [default: 30s]
    #[arg(long, value_name = "DURATION", env = "KODIAK_DATAPLANE_DRAIN_TIME", value_parser = kodiak_terminal::duration)]
    drain_time: Option<GoDuration>,

    /// Log level of Envoy [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = LEVELS)]
    envoy_log_level: Option<String>,

    /// Port of GET /ready on 127.0.0.1; 0 lets the system choose one, which is logged [default: 9902]
    #[arg(long, value_name = "PORT", env = "KODIAK_READINESS_PORT")]
    readiness_port: Option<u16>,

    /// Port on 127.0.0.1 of the DNS server for names of the mesh; 0 disables it [default: 15053 with --transparent-proxy,
    /// else 0]
    #[arg(long, value_name = "PORT", env = "KODIAK_DNS_PROXY_PORT")]
    dns_port: Option<u16>,

    /// Traffic is redirected to Envoy; see `kodiak install transparent-proxy`
    #[arg(long)]
    transparent_proxy: bool,

    /// Port that inbound traffic is redirected to [default: 15006]
    #[arg(long, value_name = "PORT", requires = "transparent_proxy")]
    redirect_inbound_port: Option<u16>,

    /// Port that outbound traffic is redirected to [default: 15001]
    #[arg(long, value_name = "PORT", requires = "transparent_proxy")]
    redirect_outbound_port: Option<u16>,

    /// This machine has IPv6
    #[arg(long)]
    ipv6: bool,

    /// CA certificates (PEM) for destinations outside of the mesh that name no CA [default: SSL_CERT_FILE, or those of
    /// this machine]
    #[arg(long, value_name = "FILE", env = "KODIAK_DATAPLANE_RUNTIME_SYSTEM_CA_PATH")]
    system_ca_path: Option<PathBuf>,

    /// Unix socket of the SPIRE agent on this machine, for a MeshIdentity with the provider Spire [default:
    /// /tmp/spire-agent/public/api.sock]
    #[arg(long, value_name = "FILE", env = "KODIAK_SPIRE_SOCKET")]
    spire_socket: Option<PathBuf>,

    /// Use state-of-the-world xDS instead of delta xDS
    #[arg(long)]
    sotw: bool,

    #[command(flatten)]
    kuma: KumaDpArgs,
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    // Before anything is started, so that no signal is missed.
    let mut signals = Signals::listen()?;
    let Some(options) = options(args, session)? else { return Ok(Exit::Refused) };
    let runner = tokio::select! {
        started = Runner::start(options) => started.map_err(explained)?,
        () = signals.next() => return Ok(Exit::Fine),
    };
    if let Some(address) = runner.dns_address() {
        tracing::info!(%address, "DNS server for names of the mesh is listening");
    }
    let died = tokio::select! {
        status = runner.ended() => Some(status),
        () = signals.next() => None,
    };
    let Some(status) = died else {
        runner.stop_sooner_on(signals.next()).await;
        return Ok(Exit::Fine);
    };
    session.terminal.error(&format!("Error: Envoy exited by itself ({status}); see its log above"));
    Ok(exit(status))
}

/// Exit code of Envoy, which is never success when Envoy exits by itself.
fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) | None => Exit::Refused,
        Some(code) => Exit::Envoy(code),
    }
}

/// Maps errors in arguments to invalid usage.
fn explained(error: RunError) -> anyhow::Error {
    let wrong_usage = matches!(
        error,
        RunError::Address { .. }
            | RunError::Ca(_)
            | RunError::Token
            | RunError::WorkDir { .. }
            | RunError::WorkDirInUse { .. }
    );
    if wrong_usage { usage(format!("{:#}", anyhow::Error::from(error))) } else { error.into() }
}

/// Prints the findings and returns `None` if the Dataplane is invalid.
fn options(args: Args, session: &Session) -> anyhow::Result<Option<Options>> {
    let kuma = &args.kuma;
    kuma.check()?;
    let ca_pem = ca(args.ca_cert_file)?;
    let source = match (args.dataplane_file, kuma.dataplane.clone()) {
        (Some(file), _) => Some(Source::File(file)),
        (None, Some(text)) => Some(Source::Text(text)),
        (None, None) => match variable("KUMA_DATAPLANE_RUNTIME_RESOURCE")? {
            Some(text) => Some(Source::Text(text)),
            None => variable("KUMA_DATAPLANE_RUNTIME_RESOURCE_PATH")?.map(Source::File),
        },
    };
    let name = or_variable(args.name, "KUMA_DATAPLANE_NAME")?;
    let mesh = or_variable(args.mesh, "KUMA_DATAPLANE_MESH")?;
    let proxy = match (source, name, mesh) {
        (Some(source), None, None) => match dataplane::read(source, &args.dataplane_var, session)? {
            Some(proxy) => proxy,
            None => return Ok(None),
        },
        (Some(_), _, _) => return Err(usage("name and mesh are in the Dataplane; omit --name and --mesh")),
        (None, _, _) if !args.dataplane_var.is_empty() => {
            return Err(usage("--dataplane-var is for the file with the Dataplane; pass it with --dataplane-file"));
        }
        (None, Some(name), mesh) => Proxy { mesh: mesh.unwrap_or_else(|| "default".to_owned()), name, resource: None },
        (None, None, _) => {
            return Err(usage("pass the Dataplane with --dataplane-file FILE, or its name with --name NAME"));
        }
    };
    let token = token(args.dataplane_token_file, kuma.dataplane_token.clone())?;
    let program = if args.envoy.is_some() { args.envoy } else { kuma.program()? };
    let envoy = find(program.as_deref(), &Environment::of_this_process()).map_err(|error| usage(error.to_string()))?;
    let address = or_variable(args.cp_address, "KUMA_CONTROL_PLANE_URL")?.unwrap_or_else(|| LOCAL.to_owned());
    let redirected = kuma.transparent_proxy_config.as_deref().map(TransparentProxyConfig::read).transpose()?;
    let transparent = args.transparent_proxy || redirected.is_some();
    let redirected = redirected.unwrap_or_default();
    let default_dns = match redirected.redirect.dns.enabled {
        Some(false) => 0,
        _ if transparent => redirected.redirect.dns.port.or(variable("KUMA_DNS_CORE_DNS_PORT")?).unwrap_or(DNS_PORT),
        _ => 0,
    };
    let dns_port = if args.dns_port.is_some() { args.dns_port } else { kuma.dns_port()? }.unwrap_or(default_dns);
    let port = |flag: Option<u16>, file: Option<u16>, usual: u16| flag.or(file).unwrap_or(usual);
    let ports = TransparentProxy {
        inbound_port: port(args.redirect_inbound_port, redirected.redirect.inbound.port, INBOUND_PORT),
        outbound_port: port(args.redirect_outbound_port, redirected.redirect.outbound.port, OUTBOUND_PORT),
    };
    let mut options = Options::new(address, ca_pem, proxy, envoy);
    options.token = token;
    let concurrency = or_variable(args.concurrency, "KUMA_DATAPLANE_RUNTIME_CONCURRENCY")?;
    options.concurrency = concurrency.filter(|threads| *threads > 0);
    let work_dir = or_variable(args.work_dir.or(args.kuma.config_dir), "KUMA_DATAPLANE_RUNTIME_WORK_DIR")?;
    options.work_dir = or_variable(work_dir, "KUMA_DATAPLANE_RUNTIME_CONFIG_DIR")?;
    options.drain_time = match args.drain_time {
        Some(time) => time.to_std().ok_or_else(|| usage("--drain-time must not be negative"))?,
        None => duration("KUMA_DATAPLANE_DRAIN_TIME")?.unwrap_or(DRAIN_TIME),
    };
    if let Some(level) = or_variable(args.envoy_log_level, "KUMA_DATAPLANE_RUNTIME_ENVOY_LOG_LEVEL")? {
        if !LEVELS.contains(&level.as_str()) {
            let advice = LEVELS.join(", ");
            return Err(usage(format!("KUMA_DATAPLANE_RUNTIME_ENVOY_LOG_LEVEL is {level:?}, not one of {advice}")));
        }
        options.envoy_log_level = level;
    }
    let components = "KUMA_DATAPLANE_RUNTIME_ENVOY_COMPONENT_LOG_LEVEL";
    options.envoy_component_log_level = or_variable(args.kuma.envoy_component_log_level, components)?;
    options.readiness_port = or_variable(args.readiness_port, "KUMA_READINESS_PORT")?.unwrap_or(READINESS_PORT);
    options.dns = (dns_port != 0).then(|| Dns { port: dns_port, resolv_conf: RESOLV_CONF.into() });
    options.transparent_proxy = transparent.then_some(ports);
    options.bind_outbounds = args.kuma.bind_outbounds;
    options.ipv6 = args.ipv6 || redirected.ipv6();
    let system_ca_path = or_variable(args.system_ca_path, "KUMA_DATAPLANE_RUNTIME_DYNAMIC_SYSTEM_CA_PATH")?;
    options.system_ca = system_ca(system_ca_path)?;
    options.spire_socket = args.spire_socket;
    let metrics_cert = or_variable(args.kuma.metrics_cert_path, "KUMA_DATAPLANE_RUNTIME_METRICS_CERT_PATH")?;
    let metrics_key = or_variable(args.kuma.metrics_key_path, "KUMA_DATAPLANE_RUNTIME_METRICS_KEY_PATH")?;
    options.metrics_certificate = metrics_cert.zip(metrics_key);
    options.max_heap_bytes = variable("KUMA_DATAPLANE_RESOURCES_MAX_MEMORY_BYTES")?.unwrap_or_default();
    options.discovery = discovery(args.sotw)?;
    if let Some(delay) = KumaDpArgs::retry_every()? {
        options.retry_every = delay;
    }
    Ok(Some(options))
}

/// PEM of the CAs that verify the control plane.
fn ca(file: Option<PathBuf>) -> anyhow::Result<Vec<u8>> {
    if file.is_none()
        && let Some(pem) = KumaDpArgs::ca_pem()?
    {
        return Ok(pem);
    }
    let file = or_variable(file, "KUMA_CONTROL_PLANE_CA_CERT_FILE")?.ok_or_else(|| {
        usage(
            "pass the CA of the control plane with --ca-cert-file FILE; a control plane with a self-signed certificate has it as \
             kodiak.crt in its work folder, on this machine mostly ~/.kodiak/kodiak.crt",
        )
    })?;
    std::fs::read(&file).map_err(|error| usage(format!("cannot read {}: {error}", file.display())))
}

fn token(file: Option<PathBuf>, text: Option<String>) -> anyhow::Result<Option<Token>> {
    let text = if file.is_none() { or_variable(text, "KUMA_DATAPLANE_RUNTIME_TOKEN")? } else { None };
    if let Some(text) = text {
        return Ok(Some(Token { text: text.trim().to_owned(), file: None }));
    }
    or_variable(file, "KUMA_DATAPLANE_RUNTIME_TOKEN_PATH")?.map(|file| read_token(&file)).transpose()
}

fn discovery(sotw: bool) -> anyhow::Result<Discovery> {
    let name = "KUMA_DATAPLANE_RUNTIME_ENVOY_XDS_TRANSPORT_PROTOCOL_VARIANT";
    match variable::<String>(name)?.as_deref() {
        _ if sotw => Ok(Discovery::StateOfTheWorld),
        Some("GRPC") => Ok(Discovery::StateOfTheWorld),
        None | Some("DELTA_GRPC") => Ok(Discovery::Delta),
        Some(other) => Err(usage(format!("{name} is {other:?}, not GRPC or DELTA_GRPC"))),
    }
}

/// The given file, or the CA certificates of this machine.
fn system_ca(named: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = named else {
        let variable = std::env::var_os(system_ca::VARIABLE);
        let found = system_ca::find(variable.as_deref());
        if found.is_none() {
            let place = variable.map_or_else(|| "any usual place".into(), |file| file.to_string_lossy().into_owned());
            tracing::warn!(place, "no CA certificates found on this machine; pass their file with --system-ca-path");
        }
        return Ok(found);
    };
    if !file.is_file() {
        return Err(usage(format!("--system-ca-path {} is no file", file.display())));
    }
    let cannot = |error: std::io::Error| usage(format!("cannot use {}: {error}", file.display()));
    std::path::absolute(&file).map(Some).map_err(cannot)
}

fn read_token(file: &Path) -> anyhow::Result<Token> {
    let cannot = |error: std::io::Error| usage(format!("cannot read {}: {error}", file.display()));
    let metadata = std::fs::metadata(file).map_err(cannot)?;
    if metadata.len() > LONGEST_TOKEN {
        return Err(usage(format!("{} is too large for a token", file.display())));
    }
    if metadata.permissions().mode() & 0o004 != 0 {
        tracing::warn!(file = %file.display(), "token file is readable by all users; run chmod 600");
    }
    let text = std::fs::read_to_string(file).map_err(cannot)?.trim().to_owned();
    if text.is_empty() {
        return Err(usage(format!("{} is empty; make a token with `kodiak generate dataplane-token`", file.display())));
    }
    Ok(Token { text, file: Some(std::path::absolute(file).map_err(cannot)?) })
}
