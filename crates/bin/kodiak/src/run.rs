//! `kodiak run`: the control plane. What it does is in `kodiak-cp`.

use std::{fs, path::PathBuf};

use kodiak_cp::{
    Config,
    config::{LogFormat, Sources, load},
};
use kodiak_model::yaml;
use tracing_subscriber::EnvFilter;

use kodiak_terminal::{Exit, usage};

#[derive(clap::Args)]
#[command(after_help = "\
Settings come from the file, then from the environment, then from flags; the last word wins. The variable of a setting
is its path in capitals: apiServer.http.port is KODIAK_API_SERVER_HTTP_PORT.

Examples:
  kodiak run                                              the embedded store, in ~/.kodiak
  kodiak run --data-dir /var/lib/kodiak --zone east
  kodiak run -f kodiak.yaml --set apiServer.http.port=8080
  kodiak run --store postgres --set store.postgres.host=db.example.com
  kodiak run --show-config                                all settings, as they would be in force")]
pub(crate) struct Args {
    /// The configuration file, as YAML
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Where the control plane keeps its files (general.workDir)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The name of this control plane's zone (multizone.zone.name)
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,

    /// Where resources are kept (store.type)
    #[arg(long, value_name = "TYPE", value_parser = ["file", "memory", "postgres"])]
    store: Option<String>,

    /// Any setting by its path; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the settings that would be in force, secrets masked, and stop
    #[arg(long)]
    show_config: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let config = load(&sources(&args)?).map_err(|error| usage(error.to_string()))?;
    if args.show_config {
        print!("{}", yaml::to_string(&serde_json::to_value(&config)?));
        return Ok(Exit::Fine);
    }
    start_logging(&config)?;
    tracing::info!(config = %serde_json::to_string(&config)?, "Starting with this configuration.");
    kodiak_cp::run(config).await?;
    Ok(Exit::Fine)
}

fn sources(args: &Args) -> anyhow::Result<Sources> {
    let Args { file, data_dir, zone, store, set, show_config: _ } = args;
    let file = match file {
        None => None,
        Some(path) => {
            let text =
                fs::read_to_string(path).map_err(|error| usage(format!("cannot read {}: {error}", path.display())))?;
            Some((path.display().to_string(), text))
        }
    };
    let named = [
        ("general.workDir", data_dir.as_ref().map(|path| path.display().to_string())),
        ("multizone.zone.name", zone.clone()),
        ("store.type", store.clone()),
    ];
    let mut flags: Vec<String> =
        named.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect();
    flags.extend(set.iter().cloned());
    let environment = std::env::vars().filter(|(name, _)| name.starts_with("KODIAK_")).collect();
    Ok(Sources { file, environment, flags })
}

fn start_logging(config: &Config) -> anyhow::Result<()> {
    let level = &config.log.level;
    let filter = EnvFilter::try_new(level).map_err(|error| usage(format!("log.level {level:?}: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
