//! `cargo xtask new-kind`: the folder of a kind that is not a policy.

use anyhow::Result;

use super::name::KindName;
use super::skeleton::{self, Skeleton};
use crate::families::KINDS;
use crate::workspace::Workspace;

/// Write the folder of a new kind that is not a policy, with one field, and register it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its name in CamelCase, such as MeshService
    #[arg(value_name = "KIND")]
    pub(super) name: String,
    /// Its short name in KRIs; its initials by default
    #[arg(long)]
    pub(super) short: Option<String>,
    /// A short description: "a part of the mesh with a control plane of its own"
    #[arg(long, default_value = "a named resource")]
    pub(super) about: String,
}

const TEMPLATES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../templates/kind/README.md.tmpl")),
    ("mod.rs", include_str!("../../templates/kind/mod.rs.tmpl")),
    ("spec.rs", include_str!("../../templates/kind/spec.rs.tmpl")),
    ("check.rs", include_str!("../../templates/kind/check.rs.tmpl")),
    ("cases/valid.in.yaml", include_str!("../../templates/kind/valid.in.yaml.tmpl")),
    ("cases/invalid.in.yaml", include_str!("../../templates/kind/invalid.in.yaml.tmpl")),
];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let folder = write(workspace, args)?;
    println!(
        "\
Wrote {folder} and registered it in {}.

Next:
  1. spec.rs: what users write. Doc comments become the descriptions in the schema.
  2. check.rs: what is wrong with it. Report every problem, each with its path. Without rules beyond the schema, delete
     the file and leave the body of `check` in mod.rs empty.
  3. mod.rs: its row in the table of kinds. `.scope(Scope::Global)` for what lives in no mesh, `.access(..)` for secrets
     and what is only observed; a `Status` type for what the control plane reports about it.
  4. README.md: what it is, an example for each main use, a table of all fields.
  5. cases/: a document for each rule. `UPDATE=1 cargo test -p kodiak-kinds` writes what comes out: read it.
  6. cargo xtask tidy && cargo test -p kodiak-model -p kodiak-kinds",
        KINDS.list
    );
    Ok(())
}

pub(super) fn write(workspace: &Workspace, args: &Args) -> Result<String> {
    let name = KindName::parse(&args.name)?;
    let taken = skeleton::taken(workspace)?;
    let short = args.short.clone().unwrap_or_else(|| name.initials());
    let values = vec![("about", args.about.clone())];
    let skeleton = Skeleton { name: &name, short, family: &KINDS, templates: TEMPLATES, values };
    skeleton.write(workspace, &taken)
}
