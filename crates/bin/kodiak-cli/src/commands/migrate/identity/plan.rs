//! `kodiak migrate identity plan`.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use kodiak_client::{Client, ListQuery, ResourceId};
use kodiak_kinds::kinds;
use kodiak_model::kinds::mesh::{Mesh, MeshServicesMode, MtlsMode};
use kodiak_terminal::{Exit, printable};
use serde::Serialize;
use serde_json::Value;

use super::super::of_mesh;
use crate::identities::{IdentityStatus, MeshIdentities, ProxyIdentity, WaitingProxy};
use crate::report::{Output, count};
use crate::session::Session;

/// MeshIdentity for all proxies of a mesh, to start from.
const EXAMPLE: &str = "\
type: MeshIdentity
mesh: {mesh}
name: identity
spec:
  selector: {dataplane: {matchLabels: {}}}
  provider:
    type: Bundled
    bundled: {insecureAllowSelfSigned: true, autogenerate: {enabled: true}}
";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate identity plan
  kodiak migrate identity plan -m demo --converted     permissions with `from` have been reviewed and stay
  kodiak migrate identity plan -o json | jq -r '.next.commands[]'

Nothing is changed. Each step comes with its commands and its rollback.")]
pub(crate) struct Args {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Permissions by tag (`from`) have been reviewed and stay
    #[arg(long)]
    converted: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The plan as it is printed.
#[derive(Debug, Serialize)]
struct ShownPlan {
    mesh: String,
    next: ShownStep,
    rollback: ShownStep,
}

#[derive(Debug, Default, Serialize)]
struct ShownStep {
    action: &'static str,
    title: String,
    why: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proxies: Vec<WaitingProxy>,
    /// Consequences for permissions and for the destinations of proxies whose reachability is on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Document to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    commands: Vec<String>,
}

/// State of a mesh that the next step depends on.
struct IdentityFacts {
    mesh: Mesh,
    /// MeshTrafficPermissions with `from`, unless they have been reviewed and stay.
    permissions: Vec<String>,
    /// Those that stay and match callers by tags.
    by_tags: Vec<String>,
    found: MeshIdentities,
}

/// Next step, in the order of the migration.
#[derive(Debug, PartialEq)]
enum IdentityStep {
    SetExclusive,
    ConvertPermissions,
    /// No SPIFFE ID can be given to these.
    FixDataplanes(Vec<WaitingProxy>),
    ApplyIdentity,
    FixIdentity(Vec<String>),
    Wait,
    /// No MeshIdentity selects these.
    SelectProxies(Vec<String>),
    DisableBackend,
    Nothing,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let facts = gather(&client, &mesh, args.converted).await?;
    let plan = shown(&mesh, &facts);
    session.terminal.data(&args.output.show(&plan, || text(&plan))?)?;
    Ok(Exit::Fine)
}

async fn gather(client: &Client, name: &str, converted: bool) -> anyhow::Result<IdentityFacts> {
    let found = MeshIdentities::read(client, name).await.map_err(|error| of_mesh(error, name))?;
    let kind = |name| kinds().by_name(name).expect("the kind exists");
    let mesh = client.get(ResourceId { kind: kind("Mesh"), mesh: "", name }).await?;
    let mesh = mesh.ok_or_else(|| anyhow::anyhow!("no Mesh with name {name:?}; `kodiak get meshes` lists them"))?;
    let all = client.list_all(&ListQuery::all_of(kind("MeshTrafficPermission"), Some(name)), |_, _| ()).await?;
    let names = |is_meant: fn(&Value) -> bool| -> Vec<String> {
        all.iter().filter(|policy| is_meant(policy)).filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
    };
    let (permissions, by_tags) =
        if converted { (Vec::new(), names(matches_tags)) } else { (names(has_from), Vec::new()) };
    Ok(IdentityFacts { mesh: serde_json::from_value(mesh)?, permissions, by_tags, found })
}

fn has_from(policy: &Value) -> bool {
    policy["spec"]["from"].as_array().is_some_and(|from| !from.is_empty())
}

/// Certificates of a MeshIdentity have no tags; `kind: Mesh` matches them, too.
fn matches_tags(policy: &Value) -> bool {
    let by_tags = |item: &Value| item["targetRef"]["kind"] != "Mesh";
    policy["spec"]["from"].as_array().is_some_and(|from| from.iter().any(by_tags))
}

fn next(facts: &IdentityFacts) -> IdentityStep {
    let IdentityFacts { mesh, permissions, found, .. } = facts;
    let failed: Vec<String> = found.failed().map(IdentityStatus::failure).collect();
    let without_id = without_id(found);
    let unselected = unselected(found);
    if mesh.mesh_services_mode() != MeshServicesMode::Exclusive {
        IdentityStep::SetExclusive
    } else if !permissions.is_empty() {
        IdentityStep::ConvertPermissions
    } else if !without_id.is_empty() {
        IdentityStep::FixDataplanes(without_id)
    } else if !has_identity(found) {
        IdentityStep::ApplyIdentity
    } else if !failed.is_empty() {
        IdentityStep::FixIdentity(failed)
    } else if !found.is_done() {
        IdentityStep::Wait
    } else if !unselected.is_empty() {
        IdentityStep::SelectProxies(unselected)
    } else if mesh.enabled_backend().is_some() {
        IdentityStep::DisableBackend
    } else {
        IdentityStep::Nothing
    }
}

/// Whether there is a MeshIdentity with a provider.
fn has_identity(found: &MeshIdentities) -> bool {
    found.identities.iter().any(|identity| !identity.announced_only)
}

/// Dataplanes without a SPIFFE ID: of the MeshIdentity that selects them, or before there is one, with the default path.
fn without_id(found: &MeshIdentities) -> Vec<WaitingProxy> {
    let has_identity = has_identity(found);
    let reason = |proxy: &ProxyIdentity| {
        let default = proxy.default_path_problem.clone().filter(|_| !has_identity);
        proxy.problem.clone().or(default)
    };
    let all = found.proxies.iter();
    all.filter_map(|proxy| Some(WaitingProxy { proxy: proxy.name.clone(), reason: reason(proxy)? })).collect()
}

/// Dataplanes whose certificate is not from a MeshIdentity at the target, offline ones too: they would be refused.
fn unselected(found: &MeshIdentities) -> Vec<String> {
    let is_identity = |wanted: &str| found.identities.iter().any(|identity| identity.kri == wanted);
    let without = found.proxies.iter().filter(|proxy| !proxy.wanted.as_deref().is_some_and(is_identity));
    without.map(|proxy| proxy.name.clone()).collect()
}

fn shown(mesh: &str, facts: &IdentityFacts) -> ShownPlan {
    let step = next(facts);
    let (rollback, warnings) = (rollback(mesh, &step, &facts.found), warnings(&step, facts));
    ShownPlan { mesh: mesh.to_owned(), rollback, next: ShownStep { warnings, ..show(mesh, step, facts) } }
}

/// Changes of what servers refuse, and so of what is trimmed.
fn warnings(step: &IdentityStep, IdentityFacts { mesh, by_tags, .. }: &IdentityFacts) -> Vec<String> {
    let issues = matches!(step, IdentityStep::ApplyIdentity | IdentityStep::SelectProxies(_));
    let is_permissive = mesh.enabled_backend().is_some_and(|backend| backend.mode() == MtlsMode::Permissive);
    let mut warnings = Vec::new();
    if issues && !by_tags.is_empty() {
        warnings.push(format!(
            "`from` of {} does not match certificates of a MeshIdentity: servers deny these callers, and proxies with \
             reachability on lose the destinations",
            by_tags.join(", ")
        ));
    }
    if issues && is_permissive {
        warnings.push(
            "the backend is PERMISSIVE, but servers with a certificate of a MeshIdentity refuse plain text, unless a MeshTLS \
             makes them permissive: proxies with reachability on lose the destinations that they may not call from then on"
                .to_owned(),
        );
    }
    if *step == IdentityStep::DisableBackend && is_permissive {
        warnings.push(
            "without a backend, servers refuse plain text: make sure that no client without a proxy calls them"
                .to_owned(),
        );
    }
    warnings
}

fn show(mesh: &str, step: IdentityStep, facts: &IdentityFacts) -> ShownStep {
    match step {
        IdentityStep::SetExclusive => ShownStep {
            action: "SetExclusive",
            title: "set meshServices.mode: Exclusive".to_owned(),
            why: "a MeshIdentity takes effect in mode Exclusive only".to_owned(),
            commands: vec![format!("kodiak migrate services plan --mesh {mesh}")],
            ..ShownStep::default()
        },
        IdentityStep::ConvertPermissions => ShownStep {
            action: "ConvertPermissions",
            title: "convert permissions from tags to SPIFFE IDs".to_owned(),
            why: format!(
                "certificates of a MeshIdentity have no tags, so `from` of a MeshTrafficPermission does not match them: {}. The conversion needs the SPIFFE IDs: without a MeshIdentity, apply yours without its provider first",
                facts.permissions.join(", ")
            ),
            commands: vec![format!("kodiak migrate identity convert --mesh {mesh}")],
            ..ShownStep::default()
        },
        IdentityStep::FixDataplanes(proxies) => fix_dataplanes(mesh, proxies, has_identity(&facts.found)),
        IdentityStep::ApplyIdentity => ShownStep {
            action: "ApplyIdentity",
            title: "apply a MeshIdentity".to_owned(),
            why: "all Dataplanes have the labels that it needs. A MeshIdentity without a provider, which Kuma needs first, is \
                  not needed: the control plane makes all clients expect the new SPIFFE IDs before it issues a certificate"
                .to_owned(),
            document: Some(EXAMPLE.replace("{mesh}", mesh)),
            commands: vec![
                "kodiak diff -f meshidentity.yaml".to_owned(),
                "kodiak apply -f meshidentity.yaml".to_owned(),
                watch(mesh),
            ],
            ..ShownStep::default()
        },
        IdentityStep::FixIdentity(failed) => ShownStep {
            action: "FixIdentity",
            title: "fix the MeshIdentity".to_owned(),
            why: failed.join("; "),
            commands: vec![format!("kodiak get meshidentities -m {mesh} -o yaml")],
            ..ShownStep::default()
        },
        IdentityStep::Wait => ShownStep {
            action: "Wait",
            title: "wait until every connected proxy presents its new certificate".to_owned(),
            why: match &facts.found.rollout.phase {
                Some(phase) => format!("the rollout is on its way, and its next phase is {phase}"),
                None => "not every connected proxy has followed the last step".to_owned(),
            },
            proxies: facts.found.rollout.waiting.clone(),
            commands: vec![watch(mesh)],
            ..ShownStep::default()
        },
        IdentityStep::SelectProxies(proxies) => ShownStep {
            action: "SelectProxies",
            title: "select the other Dataplanes with a MeshIdentity".to_owned(),
            why: format!(
                "no MeshIdentity gives a certificate to {}: {}",
                count(proxies.len(), "Dataplane", "Dataplanes"),
                proxies.join(", ")
            ),
            commands: vec![
                format!("kodiak get meshidentities -m {mesh} -o yaml > meshidentity.yaml    # then edit spec.selector"),
                "kodiak diff -f meshidentity.yaml".to_owned(),
                "kodiak apply -f meshidentity.yaml".to_owned(),
                watch(mesh),
            ],
            ..ShownStep::default()
        },
        IdentityStep::DisableBackend => disable_backend(mesh),
        IdentityStep::Nothing => ShownStep {
            action: "Nothing",
            title: "the migration is complete".to_owned(),
            why: "every certificate is from a MeshIdentity, and the Mesh has no enabled backend".to_owned(),
            ..ShownStep::default()
        },
    }
}

/// `has_identity`: a MeshIdentity issues already, and its path needs the labels.
fn fix_dataplanes(mesh: &str, proxies: Vec<WaitingProxy>, has_identity: bool) -> ShownStep {
    let first = proxies.first().map_or("", |one| one.proxy.as_str());
    let default = if has_identity {
        ""
    } else {
        " with the default path; one with a spiffeID.path of its own may need other labels: apply it, and run this again"
    };
    ShownStep {
        action: "FixDataplanes",
        title: "add the labels that SPIFFE IDs are made of, and bind them in tokens".to_owned(),
        why: format!(
            "{} no SPIFFE ID, and so no certificate of a MeshIdentity{default}",
            count(proxies.len(), "Dataplane gets", "Dataplanes get")
        ),
        commands: vec![
            format!("kodiak get dataplane {first} -m {mesh} -o yaml > dataplane.yaml    # then add the label"),
            "kodiak apply -f dataplane.yaml".to_owned(),
            format!(
                "kodiak generate dataplane-token --name {first} -m {mesh} --workload WORKLOAD --valid-for 720h    # if the \
                 proxy registers its own Dataplane; add --tag and --label for what MeshServices select it by"
            ),
        ],
        proxies,
        ..ShownStep::default()
    }
}

fn disable_backend(mesh: &str) -> ShownStep {
    ShownStep {
        action: "DisableBackend",
        title: "remove mtls.enabledBackend from the Mesh".to_owned(),
        why: "every connected proxy presents a certificate of a MeshIdentity, so nobody needs the backend. Permissions, and \
              destinations that are trimmed, stay as they are"
            .to_owned(),
        commands: edit_mesh(mesh, "remove mtls.enabledBackend"),
        ..ShownStep::default()
    }
}

/// Reverts the step; after the last one, reverts the step before.
fn rollback(mesh: &str, step: &IdentityStep, found: &MeshIdentities) -> ShownStep {
    let (title, why, commands) = match step {
        IdentityStep::SetExclusive => (
            "set meshServices.mode back",
            "the plan of that migration has the commands",
            vec![format!("kodiak migrate services plan --mesh {mesh}")],
        ),
        IdentityStep::ConvertPermissions => (
            "apply the permissions of before",
            "store a copy before you convert; to go back, apply it and delete permissions that the conversion added",
            vec![
                format!(
                    "kodiak get meshtrafficpermissions -m {mesh} -o yaml > permissions.yaml    # before you convert"
                ),
                "kodiak apply -f permissions.yaml".to_owned(),
            ],
        ),
        IdentityStep::FixDataplanes(_) => (
            "remove the labels",
            "labels have no effect until a MeshIdentity, MeshService or policy selects them",
            Vec::new(),
        ),
        IdentityStep::ApplyIdentity
        | IdentityStep::FixIdentity(_)
        | IdentityStep::Wait
        | IdentityStep::SelectProxies(_) => {
            let issuing = found.identities.iter().filter(|identity| !identity.announced_only);
            let mut names: Vec<&str> = issuing.map(|identity| identity.name.as_str()).collect();
            if names.is_empty() {
                names.push("identity");
            }
            let deletes = names.iter().map(|name| format!("kodiak delete meshidentity {name} -m {mesh}"));
            (
                "delete the MeshIdentity",
                "the same steps run in the other direction, back to certificates of the backend",
                deletes.chain([watch(mesh)]).collect(),
            )
        }
        IdentityStep::DisableBackend | IdentityStep::Nothing => (
            "set mtls.enabledBackend again",
            "proxies trust the CA of the backend again; MeshIdentities still issue until they are deleted",
            edit_mesh(mesh, "write mtls.enabledBackend: NAME"),
        ),
    };
    ShownStep { action: "Rollback", title: title.to_owned(), why: why.to_owned(), commands, ..ShownStep::default() }
}

fn watch(mesh: &str) -> String {
    format!("kodiak migrate identity status --mesh {mesh} --watch")
}

fn edit_mesh(mesh: &str, change: &str) -> Vec<String> {
    vec![
        format!("kodiak get mesh {mesh} -o yaml > mesh.yaml    # then {change}"),
        "kodiak diff -f mesh.yaml".to_owned(),
        "kodiak apply -f mesh.yaml".to_owned(),
        watch(mesh),
    ]
}

fn text(plan: &ShownPlan) -> String {
    let ShownPlan { mesh, next, rollback } = plan;
    let text = format!("Mesh {mesh}\n\nNext: {}\nRollback: {}", step_text(next), step_text(rollback));
    printable(&text).into_owned()
}

fn step_text(step: &ShownStep) -> String {
    let ShownStep { action: _, title, why, proxies, warnings, document, commands } = step;
    let mut text = format!("{title}\n  {why}\n");
    for WaitingProxy { proxy, reason } in proxies {
        let _ = writeln!(text, "    {proxy}: {reason}");
    }
    for warning in warnings {
        let _ = writeln!(text, "  WARNING: {warning}");
    }
    if let Some(document) = document {
        let _ = writeln!(text, "\n  meshidentity.yaml, for all Dataplanes of the mesh:\n");
        for line in document.lines() {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
    for command in commands {
        let _ = writeln!(text, "  $ {command}");
    }
    text
}
