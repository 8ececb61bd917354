//! `kodiak install transparent-proxy`, and its undoing. The rules are in `kodiak-dp`.

use std::process::{Command, Stdio};

use kodiak_dp::transparent_proxy::{Backend, Script, Settings, install, uninstall};
use kodiak_terminal::{Exit, usage};

use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
What the proxy's user sends is not redirected, so run `kodiak dp run --transparent-proxy` as that user and nothing else.
Everything else that is sent over TCP goes to Envoy, and so does everything that comes in; think of your own SSH. The rules
are for IPv4, need root, and are gone after a restart of the machine. To do it twice does no harm.

Examples:
  kodiak install transparent-proxy --kodiak-dp-user kodiak-dp --redirect-dns --exclude-inbound-ports 22
  kodiak install transparent-proxy --kodiak-dp-user 5678 --dry-run     print the rules, change nothing
  kodiak uninstall transparent-proxy")]
pub(crate) struct Args {
    /// The user of the proxy, by number or name
    #[arg(long, alias = "kuma-dp-user", value_name = "USER")]
    kodiak_dp_user: String,

    /// Where Envoy takes what comes in
    #[arg(long, value_name = "PORT", default_value_t = 15006, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_inbound_port: u16,

    /// Where Envoy takes what applications send
    #[arg(long, value_name = "PORT", default_value_t = 15001, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_outbound_port: u16,

    /// Redirect questions to nameservers too, so that the names of the mesh are known
    #[arg(long)]
    redirect_dns: bool,

    /// Where the proxy answers them
    #[arg(long, value_name = "PORT", default_value_t = 15053, value_parser = clap::value_parser!(u16).range(1..))]
    redirect_dns_port: u16,

    /// Ports of this machine that are reached without the proxy; may hold several, with commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    exclude_inbound_ports: Vec<u16>,

    /// Ports of others that are called without the proxy; may hold several, with commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    exclude_outbound_ports: Vec<u16>,

    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
#[command(after_help = "\
Only what `kodiak install transparent-proxy` made is removed.

Examples:
  kodiak uninstall transparent-proxy
  kodiak uninstall transparent-proxy --dry-run")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct How {
    /// The program that makes the rules [default: nft where it is installed, or else iptables; both to uninstall]
    #[arg(long, value_name = "PROGRAM")]
    backend: Option<Program>,

    /// Print the script, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Program {
    Nft,
    Iptables,
}

pub(crate) fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let settings = Settings {
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

/// From all of them, unless one is named: nobody remembers which it was.
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
    /// The one that was named, or all that are there; at least one.
    fn backends(&self) -> anyhow::Result<Vec<Backend>> {
        let backends = match self.backend {
            Some(Program::Nft) => vec![Backend::Nft],
            Some(Program::Iptables) => vec![Backend::Iptables],
            None => Backend::installed().collect(),
        };
        if backends.is_empty() {
            return Err(usage("neither nft nor iptables is installed; install one of them, or name it with --backend"));
        }
        Ok(backends)
    }
}

/// The number of a user. Names are looked up as the system does it, which knows more than `/etc/passwd`.
fn user(text: &str) -> anyhow::Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let unknown =
        || usage(format!("there is no user {text:?}; make it with `useradd --system {text}`, or give a number"));
    let mut id = Command::new("id");
    let output = id.args(["-u", "--", text]).stdin(Stdio::null()).output().map_err(|_| unknown())?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    if output.status.success() { number.map_err(|_| unknown()) } else { Err(unknown()) }
}
