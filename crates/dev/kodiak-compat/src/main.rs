//! Compares the REST API with that of Kuma 2.14.3, and the command line with kumactl.
//!
//! `calls/*.yaml` has HTTP requests with the answers of kuma-cp; `commands/*.yaml` has kumactl command lines with the
//! requests that kumactl sends, the fields of the answers that it reads, and what `kodiak` makes of the same command line.
//! Each file runs against a control plane of its own, in the order of the file. A difference on purpose is recorded beside
//! the answer of Kuma, with its reason.

mod call;
mod command;
mod live;
mod pattern;
mod report;
mod server;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser;
use kodiak_model::yaml;
use serde::de::DeserializeOwned;

use report::Report;
use server::Server;

/// Compares Kodiak with the recorded behaviour of Kuma 2.14.3
#[derive(Parser)]
struct Args {
    /// Only calls and commands whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print intended differences with their reasons, without running anything
    #[arg(long)]
    list_differences: bool,
    /// Folder with the programs kuma-cp and kumactl: checks the records against kuma-cp, and runs kumactl against Kodiak
    #[arg(long, value_name = "DIR")]
    live: Option<PathBuf>,
    /// The kodiak program whose command line is compared with kumactl
    #[arg(long, value_name = "FILE")]
    kodiak: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let calls = read::<call::Recorded>("calls")?;
    let commands = read::<command::Recorded>("commands")?;
    if args.list_differences {
        report::list(calls.iter().flat_map(|(_, calls)| calls));
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::default();
    for (file, calls) in &calls {
        let server = Server::start().await?;
        call::run(calls, &server, &args.filter, &mut report).await.with_context(|| file.clone())?;
        server.stop().await?;
    }
    for (file, commands) in &commands {
        let server = Server::start().await?;
        let run = command::run(commands, &server, args.kodiak.as_deref(), &args.filter, &mut report);
        run.await.with_context(|| file.clone())?;
        server.stop().await?;
    }
    if let Some(programs) = &args.live {
        live::run(programs, &calls, &commands, &args.filter, &mut report).await?;
    }
    Ok(report.end())
}

/// The files of a folder beside the sources, in the order of their names.
fn read<T: DeserializeOwned>(folder: &str) -> anyhow::Result<Vec<(String, Vec<T>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    files.sort();
    let read = |file: PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file)?;
        let documents = yaml::parse(&text).map_err(|error| anyhow::anyhow!("{name}: {error:?}"))?;
        let mut all = Vec::new();
        for document in documents {
            let records: Vec<T> = serde_json::from_value(document.value).with_context(|| name.clone())?;
            all.extend(records);
        }
        Ok((name, all))
    };
    files.into_iter().map(read).collect()
}
