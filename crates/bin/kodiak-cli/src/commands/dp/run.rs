//! `kodiak dp run`: runs one sidecar until a signal. The code of the sidecar is in `kodiak-dp`.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;

use kodiak_dp::envoy::{Environment, find};
use kodiak_dp::run::{Discovery, Dns, Options, Proxy, RunError, Runner, Token, TransparentProxy};
use kodiak_dp::system_ca;
use kodiak_model::GoDuration;
use kodiak_terminal::{Exit, Signals, usage};

use super::dataplane;
use crate::session::Session;

/// Default address of a control plane on this machine, for proxies.
const LOCAL: &str = "https://localhost:5678";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const READINESS_PORT: u16 = 9902;
const DNS_PORT: u16 = 15053;
/// Larger files hold no token.
const LONGEST_TOKEN: u64 = 64 << 10;

#[derive(clap::Args)]
#[command(after_help = "\
Gets the bootstrap from the control plane, waiting for it if necessary, starts Envoy, and exits with it. On SIGTERM or
SIGINT it drains: it fails readiness, notifies the control plane, waits for --drain-time, and stops Envoy; a second
signal ends the wait. Environment variables of kuma-dp (KUMA_…) are used if those of Kodiak (KODIAK_…) are not set.

The certificate of the control plane is always verified. A control plane with a self-signed certificate has it as
kodiak.crt in its data directory: copy that file to this machine and pass it with --ca-cert-file.

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
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Folder for the bootstrap and sockets of this proxy [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,

    /// Time for connections to drain
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = kodiak_terminal::duration)]
    drain_time: GoDuration,

    /// Log level of Envoy
    #[arg(long, value_name = "LEVEL", default_value = "info",
        value_parser = ["trace", "debug", "info", "warning", "error", "critical", "off"])]
    envoy_log_level: String,

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

    /// Port that inbound traffic is redirected to
    #[arg(long, value_name = "PORT", default_value_t = 15006, requires = "transparent_proxy")]
    redirect_inbound_port: u16,

    /// Port that outbound traffic is redirected to
    #[arg(long, value_name = "PORT", default_value_t = 15001, requires = "transparent_proxy")]
    redirect_outbound_port: u16,

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
    let ca_file = or_kuma(args.ca_cert_file, "KUMA_CONTROL_PLANE_CA_CERT_FILE")?.ok_or_else(|| {
        usage(
            "pass the CA of the control plane with --ca-cert-file FILE; a control plane with a self-signed certificate has it as \
             kodiak.crt in its work folder, on this machine mostly ~/.kodiak/kodiak.crt",
        )
    })?;
    let ca_pem =
        std::fs::read(&ca_file).map_err(|error| usage(format!("cannot read {}: {error}", ca_file.display())))?;
    let file = or_kuma(args.dataplane_file, "KUMA_DATAPLANE_RUNTIME_RESOURCE_PATH")?;
    let (name, mesh) = (or_kuma(args.name, "KUMA_DATAPLANE_NAME")?, or_kuma(args.mesh, "KUMA_DATAPLANE_MESH")?);
    let proxy = match (file, name, mesh) {
        (Some(file), None, None) => match dataplane::read(&file, &args.dataplane_var, session)? {
            Some(proxy) => proxy,
            None => return Ok(None),
        },
        (Some(_), _, _) => return Err(usage("name and mesh are in the Dataplane file; omit --name and --mesh")),
        (None, _, _) if !args.dataplane_var.is_empty() => {
            return Err(usage("--dataplane-var is for the file with the Dataplane; pass it with --dataplane-file"));
        }
        (None, Some(name), mesh) => Proxy { mesh: mesh.unwrap_or_else(|| "default".to_owned()), name, resource: None },
        (None, None, _) => {
            return Err(usage("pass the Dataplane with --dataplane-file FILE, or its name with --name NAME"));
        }
    };
    let token_file = or_kuma(args.dataplane_token_file, "KUMA_DATAPLANE_RUNTIME_TOKEN_PATH")?;
    let token = token_file.map(|file| read_token(&file)).transpose()?;
    let envoy =
        find(args.envoy.as_deref(), &Environment::of_this_process()).map_err(|error| usage(error.to_string()))?;
    let address = or_kuma(args.cp_address, "KUMA_CONTROL_PLANE_URL")?.unwrap_or_else(|| LOCAL.to_owned());
    let default_dns = if args.transparent_proxy { DNS_PORT } else { 0 };
    let dns_port = or_kuma(args.dns_port, "KUMA_DNS_PROXY_PORT")?.unwrap_or(default_dns);
    let ports =
        TransparentProxy { inbound_port: args.redirect_inbound_port, outbound_port: args.redirect_outbound_port };
    let mut options = Options::new(address, ca_pem, proxy, envoy);
    options.token = token;
    options.concurrency = args.concurrency;
    options.work_dir = args.work_dir;
    options.drain_time = args.drain_time.to_std().ok_or_else(|| usage("--drain-time must not be negative"))?;
    options.envoy_log_level = args.envoy_log_level;
    options.readiness_port = or_kuma(args.readiness_port, "KUMA_READINESS_PORT")?.unwrap_or(READINESS_PORT);
    options.dns = (dns_port != 0).then(|| Dns { port: dns_port, resolv_conf: RESOLV_CONF.into() });
    options.transparent_proxy = args.transparent_proxy.then_some(ports);
    options.ipv6 = args.ipv6;
    options.system_ca = system_ca(or_kuma(args.system_ca_path, "KUMA_DATAPLANE_RUNTIME_DYNAMIC_SYSTEM_CA_PATH")?)?;
    options.spire_socket = args.spire_socket;
    options.discovery = if args.sotw { Discovery::StateOfTheWorld } else { Discovery::Delta };
    Ok(Some(options))
}

/// The given value, or that of the environment variable of kuma-dp.
fn or_kuma<T: FromStr>(given: Option<T>, variable: &str) -> anyhow::Result<Option<T>> {
    if given.is_some() {
        return Ok(given);
    }
    let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| usage(format!("{variable} is {text:?}, which is not valid")))
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
