//! `kodiak store check`.

use clap::ValueEnum;
use kodiak_cli::Session;
use kodiak_store::{Damaged, offline};
use kodiak_terminal::{Exit, Table};
use serde_json::json;

use super::{Place, count};

#[derive(clap::Args)]
#[command(after_help = "\
Reads the whole file and changes nothing. The control plane must be stopped: a running one has the file locked.
PostgreSQL has checksums of its own; check it with pg_amcheck and `SHOW data_checksums`.

Examples:
  kodiak store check
  kodiak store check --path /var/lib/kodiak/kodiak.redb -o json

Exit codes: 0 everything is as it was written, 1 something is damaged.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    Json,
}

pub(super) fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let path = args.place.path()?;
    let offline::Checked { records, revision, history, damaged } = offline::check(&path, args.place.seal()?)?;
    let text = match args.output {
        Output::Json => {
            let shown: Vec<_> = damaged
                .iter()
                .map(|Damaged { what, problem, .. }| json!({ "what": what, "problem": problem }))
                .collect();
            let document = json!({
                "path": path.display().to_string(), "records": records, "revision": revision, "history": history,
                "damaged": shown,
            });
            serde_json::to_string_pretty(&document)?
        }
        Output::Table if damaged.is_empty() => {
            let records = count(records as u64, "record", "records");
            format!("{}: {records} at revision {revision} of history {history}, none damaged", path.display())
        }
        Output::Table => {
            let mut table = Table::new(["DAMAGED", "PROBLEM"]);
            for Damaged { what, problem, .. } in &damaged {
                table.row([what.clone(), problem.clone()]);
            }
            table.show()
        }
    };
    session.terminal.data(text.trim_end())?;
    if damaged.is_empty() {
        return Ok(Exit::Fine);
    }
    session.terminal.error(&format!(
        "{} of {} damaged. Go back to a backup with `kodiak store restore BACKUP --path {path} --force`; without one, \
         save the other records with `kodiak store backup BACKUP --path {path} --skip-damaged` and restore that.",
        count(damaged.len() as u64, "entry", "entries"),
        path.display(),
        path = path.display(),
    ));
    Ok(Exit::Refused)
}
