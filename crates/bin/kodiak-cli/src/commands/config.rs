//! `kodiak config`: manages the configured control planes.

mod add;

use kodiak_client::Address;
use kodiak_terminal::{Exit, Table, usage};
use serde_json::Value;

use crate::config_file::ConfigFile;
use crate::documents::nearest;
use crate::session::{Session, local_socket};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(clap::Subcommand)]
enum ConfigCommand {
    /// Add, list, remove and switch control planes
    ControlPlanes(ControlPlanesArgs),
    /// Print the configuration
    View(ViewArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak config view
  kodiak --config-file ~/.kumactl/config config view --show-secrets")]
struct ViewArgs {
    /// Show tokens and headers
    #[arg(long)]
    show_secrets: bool,
}

#[derive(clap::Args)]
struct ControlPlanesArgs {
    #[command(subcommand)]
    command: ControlPlanes,
}

#[derive(clap::Subcommand)]
enum ControlPlanes {
    /// Add a control plane and switch to it
    Add(add::Args),
    /// List control planes
    List,
    /// Remove a control plane from the configuration
    Remove(RemoveArgs),
    /// Switch to another control plane
    Switch(SwitchArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  kodiak config control-planes remove --name staging")]
struct RemoveArgs {
    /// Name of the control plane
    #[arg(long)]
    name: String,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  kodiak config control-planes switch --name prod")]
struct SwitchArgs {
    /// Name of the control plane
    #[arg(long)]
    name: String,
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        ConfigCommand::View(args) => view(&args, session)?,
        ConfigCommand::ControlPlanes(ControlPlanesArgs { command }) => match command {
            ControlPlanes::Add(args) => add::run(args, session).await?,
            ControlPlanes::List => list(session)?,
            ControlPlanes::Remove(args) => remove(&args.name, session)?,
            ControlPlanes::Switch(args) => switch(&args.name, session)?,
        },
    }
    Ok(Exit::Fine)
}

fn view(args: &ViewArgs, session: &Session) -> anyhow::Result<()> {
    let mut config = session.config()?;
    if !args.show_secrets {
        mask(&mut config);
    }
    Ok(session.terminal.data(config.to_yaml().trim_end())?)
}

/// Masks tokens and headers, which may hold credentials.
fn mask(config: &mut ConfigFile) {
    for control_plane in &mut config.control_planes {
        let api_server = &mut control_plane.coordinates.api_server;
        api_server.auth_conf.values_mut().for_each(|value| *value = Value::from("***"));
        api_server.headers.iter_mut().for_each(|header| "***".clone_into(&mut header.value));
    }
}

fn list(session: &Session) -> anyhow::Result<()> {
    let config = session.config()?;
    let active = config.context(&config.current_context).map(|context| context.control_plane.as_str());
    let mut table = Table::new(["ACTIVE", "NAME", "ADDRESS"]);
    for control_plane in &config.control_planes {
        let mark = if active == Some(control_plane.name.as_str()) { "*" } else { "" };
        let api_server = &control_plane.coordinates.api_server;
        let address = match local_socket(api_server) {
            Some(socket) => Address::Socket(socket).to_string(),
            None => api_server.url.clone(),
        };
        table.row([mark.to_owned(), control_plane.name.clone(), address]);
    }
    Ok(session.terminal.result(&table.show())?)
}

fn remove(name: &str, session: &Session) -> anyhow::Result<()> {
    let mut config = session.config()?;
    if !config.remove(name) {
        return Err(unknown(name, &config));
    }
    config.save(&session.config_path()?)?;
    session.terminal.note(&format!("removed control plane {name:?}"));
    if config.current_context.is_empty() {
        session.terminal.remark(
            "No control plane is chosen now; choose one with `kodiak config control-planes switch --name NAME`",
        );
    }
    Ok(())
}

fn switch(name: &str, session: &Session) -> anyhow::Result<()> {
    let mut config = session.config()?;
    // The context of that name, or the first one of the control plane of that name.
    let of_control_plane = || config.contexts.iter().find(|context| context.control_plane == name);
    let Some(context) = config.context(name).or_else(of_control_plane) else { return Err(unknown(name, &config)) };
    config.current_context = context.name.clone();
    config.save(&session.config_path()?)?;
    session.terminal.note(&format!("switched to control plane {name:?}"));
    Ok(())
}

fn unknown(name: &str, config: &ConfigFile) -> anyhow::Error {
    let known = || config.control_planes.iter().map(|control_plane| control_plane.name.as_str());
    usage(match nearest(name, known()) {
        Some(near) => format!("there is no control plane {name:?}; did you mean {near:?}?"),
        None => format!("there is no control plane {name:?}; `kodiak config control-planes list` lists them"),
    })
}
