//! Flags that every command takes.

use std::path::PathBuf;

use kodiak_model::GoDuration;

/// Flags that every command takes.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Configuration file with the control planes to connect to [env: KODIAK_CONFIG] [default: ~/.kodiak/config]
    // Without clap's `env`: `kodiak run` has a --config-file of its own, which would inherit the value.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config_file: Option<PathBuf>,

    /// Context of the configuration file to use instead of the current one
    #[arg(short, long, value_name = "NAME", global = true, conflicts_with = "cp")]
    pub(crate) context: Option<String>,

    /// Address of the control plane for this command: http://…, https://… or unix:/PATH of its Unix socket
    /// [default: that of the current context, else the socket ~/.kodiak/kodiak.sock if a control plane listens there,
    /// else http://localhost:5681]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) cp: Option<String>,

    /// Timeout of a request to the control plane; 0s disables it
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = kodiak_terminal::duration, global = true)]
    pub(crate) api_timeout: GoDuration,

    /// Disable colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,

    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}
