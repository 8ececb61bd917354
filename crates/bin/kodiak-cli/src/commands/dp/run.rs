//! `kodiak dp run`: one proxy, until it is told to end. What it does is in `kodiak-dp`.

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

/// Where a control plane of this machine answers proxies.
const LOCAL: &str = "https://localhost:5678";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const READINESS_PORT: u16 = 9902;
const DNS_PORT: u16 = 15053;
/// Beyond this it is no token.
const LONGEST_TOKEN: u64 = 64 << 10;

#[derive(clap::Args)]
#[command(after_help = "\
It gets Envoy's configuration from the control plane, waiting for it where need be, starts Envoy, and ends with it. On
SIGTERM or SIGINT it drains: it is no longer ready, tells the control plane, waits for --drain-time, and ends Envoy; a
second signal ends the wait. Variables of kuma-dp (KUMA_…) are taken where the one of Kodiak (KODIAK_…) is not set.

The certificate of the control plane is always verified. One that made its own has it in kodiak.crt in its work folder:
copy that file to this machine and pass it with --ca-cert-file.

Examples:
  kodiak generate dataplane-token --mesh default --name web-1 --valid-for 720h > token
  kodiak dp run -d web.yaml --dataplane-token-file token --ca-cert-file ~/.kodiak/kodiak.crt
  kodiak dp run -d web.yaml -v name=web-2 -v address=10.0.0.2 --dataplane-token-file token --ca-cert-file ca.pem
  kodiak dp run --mesh default --name web-1 --dataplane-token-file token --ca-cert-file ca.pem   for one that is applied
  kodiak dp run -d web.yaml --transparent-proxy …     see `kodiak install transparent-proxy --help`
  curl -fsS localhost:9902/ready                      is it ready

Exit codes: as for all commands; that of Envoy where it ends by itself, or 128 and the number of its signal.")]
pub(crate) struct Args {
    /// Where the control plane answers proxies [default: https://localhost:5678]
    #[arg(long, value_name = "URL", env = "KODIAK_CONTROL_PLANE_URL")]
    cp_address: Option<String>,

    /// The authorities that vouch for the control plane, as PEM
    #[arg(long, value_name = "FILE", env = "KODIAK_CONTROL_PLANE_CA_CERT_FILE")]
    ca_cert_file: Option<PathBuf>,

    /// The file with the Dataplane, or - for standard input
    #[arg(short, long, value_name = "FILE|-", env = "KODIAK_DATAPLANE_RUNTIME_RESOURCE_PATH")]
    dataplane_file: Option<PathBuf>,

    /// A value for `{{ KEY }}` in that file. May be repeated
    #[arg(short = 'v', long, value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    dataplane_var: Vec<(String, String)>,

    /// The file with the token of this proxy
    #[arg(long, value_name = "FILE", env = "KODIAK_DATAPLANE_RUNTIME_TOKEN_PATH")]
    dataplane_token_file: Option<PathBuf>,

    /// The name of a Dataplane that the control plane has; not with a file
    #[arg(long, env = "KODIAK_DATAPLANE_NAME")]
    name: Option<String>,

    /// Its mesh; not with a file [default: default]
    #[arg(long, env = "KODIAK_DATAPLANE_MESH")]
    mesh: Option<String>,

    /// The program [default: where `kodiak dp install-envoy` puts it, or from PATH]
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,

    /// Worker threads of Envoy [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Where the bootstrap and the sockets are, for one proxy alone [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,

    /// How long connections have to end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = kodiak_terminal::duration)]
    drain_time: GoDuration,

    /// What Envoy logs
    #[arg(long, value_name = "LEVEL", default_value = "info",
        value_parser = ["trace", "debug", "info", "warning", "error", "critical", "off"])]
    envoy_log_level: String,

    /// The port of GET /ready on 127.0.0.1; 0 is chosen by the system and logged [default: 9902]
    #[arg(long, value_name = "PORT", env = "KODIAK_READINESS_PORT")]
    readiness_port: Option<u16>,

    /// The port on 127.0.0.1 for DNS with the names of the mesh; 0 is off [default: 15053 with --transparent-proxy, or 0]
    #[arg(long, value_name = "PORT", env = "KODIAK_DNS_PROXY_PORT")]
    dns_port: Option<u16>,

    /// Traffic is redirected to the proxy; see `kodiak install transparent-proxy`
    #[arg(long)]
    transparent_proxy: bool,

    /// Where traffic that comes in is redirected to
    #[arg(long, value_name = "PORT", default_value_t = 15006, requires = "transparent_proxy")]
    redirect_inbound_port: u16,

    /// Where traffic that applications send is redirected to
    #[arg(long, value_name = "PORT", default_value_t = 15001, requires = "transparent_proxy")]
    redirect_outbound_port: u16,

    /// Addresses of IPv6 are of use on this machine
    #[arg(long)]
    ipv6: bool,

    /// The file with the authorities that vouch for what is outside of the mesh, as PEM, where nothing else is said
    /// [default: that of SSL_CERT_FILE, or of this machine]
    #[arg(long, value_name = "FILE", env = "KODIAK_DATAPLANE_RUNTIME_SYSTEM_CA_PATH")]
    system_ca_path: Option<PathBuf>,

    /// Have Envoy told everything at each change, instead of what changed
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
        tracing::info!(%address, "Names of the mesh are answered.");
    }
    let died = tokio::select! {
        status = runner.ended() => Some(status),
        () = signals.next() => None,
    };
    let Some(status) = died else {
        runner.stop_sooner_on(signals.next()).await;
        return Ok(Exit::Fine);
    };
    session.terminal.error(&format!("Error: Envoy ended by itself ({status}); its last lines above say why"));
    Ok(exit(status))
}

/// That of Envoy, except that to end by itself is never fine.
fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) | None => Exit::Refused,
        Some(code) => Exit::Envoy(code),
    }
}

/// What the command line got wrong has the code for it.
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

/// `None` when something is wrong with the Dataplane, which is on the terminal then.
fn options(args: Args, session: &Session) -> anyhow::Result<Option<Options>> {
    let ca_file = or_kuma(args.ca_cert_file, "KUMA_CONTROL_PLANE_CA_CERT_FILE")?.ok_or_else(|| {
        usage(
            "say who vouches for the control plane with --ca-cert-file FILE; one that made its own certificate has it in \
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
        (Some(_), _, _) => return Err(usage("the file says name and mesh; leave --name and --mesh out")),
        (None, _, _) if !args.dataplane_var.is_empty() => {
            return Err(usage("--dataplane-var is for the file with the Dataplane; pass it with --dataplane-file"));
        }
        (None, Some(name), mesh) => Proxy { mesh: mesh.unwrap_or_else(|| "default".to_owned()), name, resource: None },
        (None, None, _) => {
            return Err(usage(
                "say who the proxy is: with its Dataplane in --dataplane-file FILE, or with --name NAME",
            ));
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
    options.discovery = if args.sotw { Discovery::StateOfTheWorld } else { Discovery::Delta };
    Ok(Some(options))
}

/// What was given, or what people have set for kuma-dp.
fn or_kuma<T: FromStr>(given: Option<T>, variable: &str) -> anyhow::Result<Option<T>> {
    if given.is_some() {
        return Ok(given);
    }
    let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| usage(format!("{variable} is {text:?}, which cannot be")))
}

/// What was named, or what this machine has.
fn system_ca(named: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = named else {
        let variable = std::env::var_os(system_ca::VARIABLE);
        let found = system_ca::find(variable.as_deref());
        if found.is_none() {
            let place = variable.map_or_else(|| "any usual place".into(), |file| file.to_string_lossy().into_owned());
            tracing::warn!(
                place,
                "The authorities of this machine are not there; name their file with --system-ca-path."
            );
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
        tracing::warn!(file = %file.display(), "Everybody on this machine can read the token; chmod 600 it.");
    }
    let text = std::fs::read_to_string(file).map_err(cannot)?.trim().to_owned();
    if text.is_empty() {
        return Err(usage(format!("{} is empty; make a token with `kodiak generate dataplane-token`", file.display())));
    }
    Ok(Token { text, file: Some(std::path::absolute(file).map_err(cannot)?) })
}
