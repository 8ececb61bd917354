//! Flags that every command takes.

use std::path::PathBuf;

use kodiak_model::GoDuration;

/// Flags that every command takes.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The file with the known control planes [default: ~/.kodiak/config]
    #[arg(long, value_name = "FILE", env = "KODIAK_CONFIG", global = true)]
    pub(crate) config_file: Option<PathBuf>,

    /// Use this context of the file instead of the current one
    #[arg(short, long, value_name = "NAME", global = true, conflicts_with = "cp")]
    pub(crate) context: Option<String>,

    /// Use the control plane at this address, just once: http://…, https://… or unix:/PATH of its socket.
    /// Without it and without a configured control plane: the socket ~/.kodiak/kodiak.sock where one listens,
    /// else http://localhost:5681
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) cp: Option<String>,

    /// How long one request may take; 0s waits for ever
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = kodiak_terminal::duration, global = true)]
    pub(crate) api_timeout: GoDuration,

    /// No colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,

    /// Say nothing but results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}
