//! `cargo xtask new-policy`: the folder of a policy.

use anyhow::Result;

use super::name::KindName;
use super::skeleton::{self, Skeleton, Taken};
use crate::families::POLICIES;
use crate::workspace::Workspace;

/// Write the folder of a new policy, with one field, and register it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its kind in CamelCase, such as MeshTimeout
    #[arg(value_name = "KIND")]
    pub(super) name: String,
    /// Its short name in KRIs; its initials by default
    #[arg(long)]
    pub(super) short: Option<String>,
    /// A short description: "timeouts of connections, requests and streams"
    #[arg(long, default_value = "outbound requests of some proxies")]
    pub(super) about: String,
}

const TEMPLATES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../templates/policy/README.md.tmpl")),
    ("mod.rs", include_str!("../../templates/policy/mod.rs.tmpl")),
    ("spec.rs", include_str!("../../templates/policy/spec.rs.tmpl")),
    ("check.rs", include_str!("../../templates/policy/check.rs.tmpl")),
    ("envoy.rs", include_str!("../../templates/policy/envoy.rs.tmpl")),
    ("cases/valid.in.yaml", include_str!("../../templates/policy/valid.in.yaml.tmpl")),
    ("cases/invalid.in.yaml", include_str!("../../templates/policy/invalid.in.yaml.tmpl")),
    ("cases/merged.mesh.yaml", include_str!("../../templates/policy/merged.mesh.yaml.tmpl")),
];

/// Orders from here on are for policies that must be applied last.
const LAST_ORDERS: u32 = 9000;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let folder = write(workspace, args)?;
    println!(
        "\
Wrote {folder} and registered it in {}.

Next:
  1. spec.rs: what users write. Doc comments become the descriptions in the schema.
  2. check.rs: what is wrong with it. Report every problem, each with its path.
  3. mod.rs: what it may target (`PolicyFacts`; `from_to::Rule` is for calls that proxies receive) and its `order`.
  4. envoy.rs: what it does to proxies, in those hooks of `Policy` that it needs. A policy that is only stored has
     `POLICY = None`, and neither the file nor the implementation.
  5. README.md: what it is for, an example for each main use, a table of all fields, what Envoy does.
  6. cases/*.in.yaml: a document for each rule. `UPDATE=1 cargo test -p kodiak-kinds` writes what comes out: read it.
  7. cases/*.mesh.yaml: a mesh for each main field, and one for two policies together.
     `UPDATE=1 cargo test -p kodiak-testkit --test it cases` writes what changes for a proxy: read that, too.
  8. cargo xtask fmt && cargo xtask tidy && cargo test -p kodiak-policies -p kodiak-kinds",
        POLICIES.list
    );
    Ok(())
}

pub(super) fn write(workspace: &Workspace, args: &Args) -> Result<String> {
    let name = KindName::parse_policy(&args.name)?;
    let taken = skeleton::taken(workspace)?;
    let short = args.short.clone().unwrap_or_else(|| name.initials());
    let values = vec![("about", args.about.clone()), ("order", next_order(&taken).to_string())];
    let skeleton = Skeleton { name: &name, short, family: &POLICIES, templates: TEMPLATES, values };
    skeleton.write(workspace, &taken)
}

/// A hundred above the highest, so that others fit in between.
fn next_order(taken: &[Taken]) -> u32 {
    let order = |text: &str| text.split_once("order: ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let orders = taken.iter().filter_map(|taken| order(&taken.text));
    let highest = orders.filter(|order: &u32| *order < LAST_ORDERS).max();
    highest.unwrap_or(0) + 100
}
