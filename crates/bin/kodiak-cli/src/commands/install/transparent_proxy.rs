//! `kodiak install transparent-proxy` and its removal. The rules are in `kodiak-dp`.

use std::process::{Command, Stdio};

use kodiak_dp::transparent_proxy::{Backend, RedirectionSettings, Script, install, uninstall};
use kodiak_terminal::{Exit, usage};

use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Traffic of the proxy's user is not redirected: run `kodiak dp run --transparent-proxy`, and nothing else, as that user.
All other TCP traffic, outbound and inbound, goes through Envoy: exclude the port of your SSH session. The rules are for
IPv4, need root, and do not survive a reboot. Running it again is harmless.

Examples:
  kodiak install transparent-proxy --kodiak-dp-user kodiak-dp --redirect-dns --exclude-inbound-ports 22
  kodiak install transparent-proxy --kodiak-dp-user 5678 --dry-run     print the rules only
  kodiak uninstall transparent-proxy")]
pub(crate) struct Args {
    /// User (name or UID) that runs the proxy
    #[arg(long, alias = "kuma-dp-user", value_name = "USER")]
    kodiak_dp_user: String,

    /// Port of Envoy for inbound traffic
    #[arg(long, value_name = "PORT", default_value_t = 15006, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_inbound_port: u16,

    /// Port of Envoy for outbound traffic
    #[arg(long, value_name = "PORT", default_value_t = 15001, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_outbound_port: u16,

    /// Redirect DNS queries too, so that names of the mesh resolve
    #[arg(long)]
    redirect_dns: bool,

    /// Port of the proxy's DNS server
    #[arg(long, value_name = "PORT", default_value_t = 15053, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_dns_port: u16,

    /// Inbound ports that bypass the proxy, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    exclude_inbound_ports: Vec<u16>,

    /// Outbound ports that bypass the proxy, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    exclude_outbound_ports: Vec<u16>,

    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
#[command(after_help = "\
Removes only rules of `kodiak install transparent-proxy`.

Examples:
  kodiak uninstall transparent-proxy
  kodiak uninstall transparent-proxy --dry-run")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct How {
    /// Program that installs the rules [default: nft if installed, else iptables; both to uninstall]
    #[arg(long, value_name = "PROGRAM")]
    backend: Option<Program>,

    /// Print the script without running it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Program {
    Nft,
    Iptables,
}

pub(crate) fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let settings = RedirectionSettings {
        proxy_user: user(&args.kodiak_dp_user)?,
        inbound_port: args.redirect_inbound_port,
        outbound_port: args.redirect_outbound_port,
        dns_port: args.redirect_dns.then_some(args.redirect_dns_port),
        exclude_inbound_ports: args.exclude_inbound_ports,
        exclude_outbound_ports: args.exclude_outbound_ports,
    };
    let backends = args.how.backends()?;
    let backend = *backends.first().expect("it is an error that there is none");
    let made = format!("Traffic goes through the proxy now, by rules of {}.", backend.name());
    carry_out(&install(&settings, backend), args.how.dry_run, &made, session)
}

/// Removes the rules of all backends unless one is named, since users forget which one they used.
pub(crate) fn undo(args: &UninstallArgs, session: &Session) -> anyhow::Result<Exit> {
    for backend in args.how.backends()? {
        let removed = format!("No rules of ours are left in {}.", backend.name());
        carry_out(&uninstall(backend), args.how.dry_run, &removed, session)?;
    }
    Ok(Exit::Fine)
}

fn carry_out(script: &Script, dry_run: bool, done: &str, session: &Session) -> anyhow::Result<Exit> {
    if dry_run {
        session.terminal.data(script.text.trim_end())?;
    } else {
        script.run()?;
        session.terminal.note(done);
    }
    Ok(Exit::Fine)
}

impl How {
    /// The named backend, or all that are installed; at least one.
    fn backends(&self) -> anyhow::Result<Vec<Backend>> {
        let backends = match self.backend {
            Some(Program::Nft) => vec![Backend::Nft],
            Some(Program::Iptables) => vec![Backend::Iptables],
            None => Backend::installed().collect(),
        };
        if backends.is_empty() {
            return Err(usage("neither nft nor iptables is installed; install one of them, or pass it with --backend"));
        }
        Ok(backends)
    }
}

/// UID of a user. The system resolves names, since users are not only in `/etc/passwd`.
fn user(text: &str) -> anyhow::Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let unknown =
        || usage(format!("there is no user {text:?}; create it with `useradd --system {text}`, or pass a UID"));
    let mut id = Command::new("id");
    let output = id.args(["-u", "--", text]).stdin(Stdio::null()).output().map_err(|_| unknown())?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    if output.status.success() { number.map_err(|_| unknown()) } else { Err(unknown()) }
}
