//! `kodiak migrate kuma`: imports the meshes of a Kuma control plane.

mod apply;
mod report;
mod source;

use std::path::{Path, PathBuf};

use kodiak_migration::kuma::{ImportedResource, import};
use kodiak_model::yaml;
use kodiak_terminal::{Exit, usage};

use crate::documents::{FileArgs, FileResource, Origin};
use crate::private_file;
use crate::report::{Output, count};
use crate::session::Session;
use report::ImportReport;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kumactl export --profile all --include-admin > export.yaml
  kodiak migrate kuma -f export.yaml                           report only: nothing is written
  kodiak migrate kuma -f export.yaml --write converted.yaml    review the documents
  kodiak migrate kuma -f export.yaml --apply                   write them to the control plane
  kodiak migrate kuma --from https://kuma:5682 --from-ca-cert-file kuma.pem --from-token \"$TOKEN\" --apply

Resources come over as they are. Legacy policies (TrafficRoute, Timeout and others) are converted where the result is
the same; the report says why others are not, and what to do instead. CAs, signing keys and virtual addresses are kept,
so that proxies move by a restart with another address. Resources that are up to date are not written again: the
command can be repeated.
Exit codes: 0 everything comes over; 4 something is left out, or was rejected by the control plane.")]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Address of a Kuma control plane to read from, instead of files. For a control plane of the configuration, its
    /// credentials are used
    #[arg(long, value_name = "URL", conflicts_with = "files")]
    from: Option<String>,

    /// User token for --from. Secrets are readable for administrators only
    #[arg(long, value_name = "TOKEN", env = "KODIAK_FROM_TOKEN", hide_env_values = true, requires = "from")]
    from_token: Option<String>,

    /// CA certificates to trust for --from [default: those of this machine]
    #[arg(long, value_name = "FILE", requires = "from")]
    from_ca_cert_file: Option<PathBuf>,

    /// File for the documents to import, Secrets included; - for standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "apply")]
    write: Option<PathBuf>,

    /// Write the resources to the control plane
    #[arg(long)]
    apply: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let documents = source::read(args, session).await?;
    if documents.is_empty() {
        return Err(usage("there is nothing to import: the export holds no resources"));
    }
    let import = import(documents);
    let resources: Vec<Importing> = import.documents.iter().map(Importing::of).collect();
    let mut report = ImportReport::of(&import);
    if args.apply {
        report.applied = Some(apply::run(session, resources).await?);
    } else if let Some(out) = &args.write {
        write(session, out, &resources)?;
    }
    let shown = args.output.show(&report, || report.text())?;
    if args.write.as_deref() == Some(Path::new("-")) {
        session.terminal.remark(&shown);
    } else {
        session.terminal.data(&shown)?;
    }
    if !args.apply && args.write.is_none() {
        session.terminal.remark("Nothing was written: use --apply to import it, --write FILE to review the documents");
    }
    Ok(if report.is_complete() { Exit::Fine } else { Exit::Negative })
}

/// Resource to write.
struct Importing {
    resource: FileResource,
    address: Option<std::net::Ipv4Addr>,
}

impl Importing {
    fn of(imported: &ImportedResource) -> Self {
        let ImportedResource { draft, checked, address, .. } = imported;
        let origin = Origin { file: 0, document: 0, line: 1 };
        Self { resource: FileResource { origin, draft: draft.clone(), checked: checked.clone() }, address: *address }
    }
}

fn write(session: &Session, out: &Path, resources: &[Importing]) -> anyhow::Result<()> {
    let documents = resources.iter().map(|one| yaml::to_string(&one.resource.document()));
    let text = documents.collect::<Vec<_>>().join("---\n");
    if out == Path::new("-") {
        session.terminal.data(text.trim_end())?;
        return Ok(());
    }
    private_file::write(out, text.as_bytes())
        .map_err(|error| usage(format!("cannot write {}: {error}", out.display())))?;
    let documents = count(resources.len(), "document", "documents");
    session.terminal.remark(&format!("{documents} written to {}", out.display()));
    Ok(())
}
