//! `kodiak validate`: validation without a control plane.

use kodiak_model::Place;
use kodiak_terminal::{Exit, usage};

use crate::documents::{Checkup, FileArgs, FileResource, Names, Severity, SourceFile, check};
use crate::report::{self, Warnings};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak validate -f policy.yaml
  kodiak validate -R -f mesh/ --zone east
  helm template chart | kodiak validate -f -")]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Zone of the control plane to validate for
    #[arg(long, default_value = "default")]
    zone: String,

    /// Mesh of resources that name none
    #[arg(short, long, default_value = "default")]
    mesh: String,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    if args.files.files.is_empty() {
        return Err(usage("pass the files to validate with -f FILE, -f FOLDER or -f -"));
    }
    let (files, faults) = args.files.read(terminal)?;
    if !faults.is_empty() {
        terminal.rendered(&report::findings(&files, &faults, terminal.color));
        return Ok(Exit::Refused);
    }
    let place = Place::Zone { name: args.zone.clone() };
    let Checkup { resources, findings } = check(&files, &Names { mesh: &args.mesh }, &place);
    if !findings.is_empty() {
        terminal.rendered(&report::findings(&files, &findings, terminal.color));
    }
    let mut warnings = Warnings::default();
    for resource in &resources {
        for warning in &resource.checked.warnings {
            warnings.add(warning, || resource.origin.show(&files));
        }
    }
    warnings.lines().for_each(|line| terminal.remark(&line));
    for (n, file) in files.iter().enumerate() {
        let of_file = |severity| findings.iter().filter(|found| found.file == n && found.severity == severity).count();
        match (of_file(Severity::Error), of_file(Severity::Warning)) {
            (0, _) => terminal.note(&fine(n, file, &resources)),
            (problems, 0) => terminal.error(&format!("{}: {}", file.name, counted(problems, "problem"))),
            (problems, warnings) => {
                let (problems, warnings) = (counted(problems, "problem"), counted(warnings, "warning"));
                terminal.error(&format!("{}: {problems}, {warnings}", file.name));
            }
        }
    }
    Ok(if findings.is_empty() { Exit::Fine } else { Exit::Refused })
}

fn fine(n: usize, file: &SourceFile, resources: &[FileResource]) -> String {
    let of_file = || resources.iter().filter(|resource| resource.origin.file == n);
    let warnings = of_file().map(|resource| resource.checked.warnings.len()).sum();
    format!("{}: ok ({}, {})", file.name, counted(of_file().count(), "resource"), counted(warnings, "warning"))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
