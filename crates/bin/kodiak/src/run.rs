//! `kodiak run`: runs the control plane of `kodiak-cp`.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use kodiak_cp::{
    Config,
    config::{Loaded, LogFormat, Sources, WithoutEffect, load},
};
use kodiak_model::yaml;
use tracing_subscriber::EnvFilter;

use kodiak_terminal::{Exit, usage};

#[derive(clap::Args)]
#[command(after_help = "\
Settings are read from the file, then from the environment, then from flags; later ones override earlier ones. The
environment variable of a setting is its path in capitals: apiServer.http.port is KODIAK_API_SERVER_HTTP_PORT.

A configuration file and variables (KUMA_…) of kuma-cp are understood, too; variables of Kodiak override those of Kuma.
Settings that have no effect here are logged at start, and --show-config lists them.

Examples:
  kodiak run                                              with the embedded store in ~/.kodiak
  kodiak run --data-dir /var/lib/kodiak --zone east
  kodiak run -f kodiak.yaml --set apiServer.http.port=8080
  kodiak run -c kuma-cp.yaml                              with the configuration of kuma-cp
  kodiak run --store postgres --set store.postgres.host=db.example.com
  kodiak run --show-config                                print all effective settings")]
pub(crate) struct Args {
    /// Configuration file (YAML)
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// As --file, under the name of kuma-cp
    // Replaces the global flag, which is about control planes to connect to.
    #[arg(short = 'c', long, value_name = "FILE", conflicts_with = "file")]
    config_file: Option<PathBuf>,

    /// Replaces the global flag, so that -c can be the flag of kuma-cp.
    #[arg(long, hide = true)]
    context: Option<String>,

    /// Data directory of the control plane (general.workDir)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Zone of this control plane (multizone.zone.name)
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,

    /// Store for resources (store.type)
    #[arg(long, value_name = "TYPE", value_parser = ["file", "memory", "postgres"])]
    store: Option<String>,

    /// Override a setting by its path. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the effective settings, with secrets masked, and exit
    #[arg(long)]
    show_config: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let loaded = load(&sources(&args)?).map_err(|error| usage(error.to_string()))?;
    if args.show_config {
        print!("{}{}", yaml::to_string(&serde_json::to_value(&loaded.config)?), origins(&loaded));
        return Ok(Exit::Fine);
    }
    let Loaded { config, from_kuma: _, without_effect } = loaded;
    start_logging(&config)?;
    let (zone, store) = (&config.multizone.zone.name, config.store.store_type);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %zone, ?store, "starting control plane");
    tracing::debug!(config = %serde_json::to_string(&config)?, "effective configuration");
    if !without_effect.is_empty() {
        tracing::warn!(settings = by_reason(&without_effect), "settings of Kuma without effect");
    }
    kodiak_cp::run(config).await?;
    Ok(Exit::Fine)
}

/// Comments for `--show-config`: the origin of values that are settings of Kuma, and those without effect.
fn origins(loaded: &Loaded) -> String {
    let mut comments = String::new();
    if !loaded.from_kuma.is_empty() {
        comments.push_str("# Set by settings of Kuma:\n");
    }
    for from in &loaded.from_kuma {
        let _ = writeln!(comments, "#   {} by {}", from.setting, from.source);
    }
    if !loaded.without_effect.is_empty() {
        comments.push_str("# Settings of Kuma without effect:\n");
    }
    for WithoutEffect { setting, why } in &loaded.without_effect {
        let _ = writeln!(comments, "#   {setting}: {why}");
    }
    comments
}

/// `not supported: several zones (multizone.zone.kds, metrics.zone); …`
fn by_reason(settings: &[WithoutEffect]) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for WithoutEffect { setting, why } in settings {
        reasons.entry(why).or_default().push(setting);
    }
    let reason = |(why, settings): (&str, Vec<&str>)| format!("{why} ({})", settings.join(", "));
    reasons.into_iter().map(reason).collect::<Vec<_>>().join("; ")
}

fn sources(args: &Args) -> anyhow::Result<Sources> {
    let Args { file, config_file, context: _, data_dir, zone, store, set, show_config: _ } = args;
    let file = match file.as_ref().or(config_file.as_ref()) {
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
    let ours = |name: &str| name.starts_with("KODIAK_") || name.starts_with("KUMA_");
    let environment = std::env::vars().filter(|(name, _)| ours(name)).collect();
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
