//! `context-hash`: a mesh and a change. Must proxies get new configuration?

mod watched;

use std::collections::BTreeSet;

use anyhow::Context as _;
use kodiak_engine::EngineChange;
use kodiak_kinds::kinds;
use kodiak_model::{ProxyKey, ResourceKey};
use kodiak_store::{Backend, Expect, Store, StoreConfig, Transaction, Write};
use serde_json::{Value, json};

use crate::{
    case::{Case, Outcome},
    deviations, lenient,
    suites::feed,
};
use watched::{Addresses, Sets, Watched, is_remade};

/// A kind for the control plane only.
const CONFIG: &str = "Config";

pub(crate) fn run(case: &Case) -> anyhow::Result<Outcome> {
    let scope = match case.name.split('/').next() {
        Some("basemeshcontext_hash") => Scope::Base,
        Some("meshcontext_hash") => Scope::Mesh,
        Some("globalcontext_hash") => Scope::Global,
        other => return Ok(Outcome::Skipped(format!("context {other:?} is unsupported"))),
    };
    let change = case.beside(".change.yaml").context("there is no change beside the input")?;
    judge(scope, case.text()?, &change)
}

fn judge(scope: Scope, mesh: String, change: &str) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(judge_async(scope, mesh, change))
}

/// Part of the resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All meshes, without resources of a single mesh.
    Global,
    /// One mesh, without its Dataplanes.
    Base,
    Mesh,
}

/// The first line: `# mesh-1 true`, or `# true` for all meshes.
struct Recorded {
    scope: Scope,
    mesh: Option<String>,
    seen: bool,
}

async fn judge_async(scope: Scope, text: String, change: &str) -> anyhow::Result<Outcome> {
    let recorded = Recorded::read(scope, &text)?;
    let changed = documents(change)?;
    if let Some(kind) = changed
        .iter()
        .map(|key| &key.kind)
        .find(|kind| kinds().by_name(kind).is_some_and(|kind| kind.without_effect.is_some()))
    {
        return Ok(Outcome::Skipped(format!("no proxy depends on a {kind} yet")));
    }
    let store = Store::open(StoreConfig::new(Backend::Memory)).await?;
    let mut keys: BTreeSet<ResourceKey> = documents(&text)?.into_iter().collect();
    // Every mesh has a proxy that would get new configuration.
    let text = keys.iter().filter(|key| &*key.kind == "Mesh").fold(text, |text, mesh| text + &watcher(&mesh.name));
    keys.extend(documents(&text)?);
    if let Some(reason) = load(&store, &text).await? {
        return Ok(Outcome::Skipped(reason));
    }
    let proxies: Vec<ProxyKey> =
        keys.iter().filter(|key| &*key.kind == "Dataplane").map(|key| ProxyKey::new(&key.mesh, &key.name)).collect();

    let mut watched = Watched::connected(Addresses::new(), changes_of(&store, &keys), &proxies)?;
    let before = watched.sets(&proxies);
    if let Some(reason) = load(&store, change).await? {
        return Ok(Outcome::Skipped(reason));
    }
    let pushed = watched.change(changes_of(&store, &changed))?;
    let after = watched.sets(&proxies);
    keys.extend(changed.iter().cloned());
    let anew = Watched::connected(watched.addresses(), changes_of(&store, &keys), &proxies)?.sets(&proxies);
    if after != anew {
        return Ok(Outcome::Failed("the change was not pushed although it makes a difference".to_owned()));
    }
    let meant: Vec<&ProxyKey> = proxies.iter().filter(|proxy| recorded.means(proxy, &changed)).collect();
    let different = meant.iter().any(|proxy| scope.differs(proxy, &changed, &before, &after));
    let unnecessary = pushed.proxies.is_empty() && pushed.encoded > 0;
    let seen = unnecessary
        || match scope {
            Scope::Base => different,
            Scope::Global | Scope::Mesh => meant.iter().any(|proxy| pushed.proxies.contains(*proxy)),
        };
    let expected = deviations::changes::must_be_pushed(recorded.seen, different);
    Ok(if seen == expected {
        Outcome::Passed
    } else {
        Outcome::Failed(format!(
            "expected {expected}, found {seen}: {:?} were updated, {} encoded",
            pushed.proxies, pushed.encoded
        ))
    })
}

impl Recorded {
    fn read(scope: Scope, text: &str) -> anyhow::Result<Self> {
        let mut words = text.lines().next().unwrap_or_default().trim_start_matches('#').split_whitespace().rev();
        let seen = words.next().context("the first line has the expected result")?.parse()?;
        Ok(Self { scope, mesh: words.next().map(str::to_owned), seen })
    }

    fn means(&self, proxy: &ProxyKey, changed: &[ResourceKey]) -> bool {
        match self.scope {
            Scope::Base | Scope::Mesh => self.mesh.as_ref().is_none_or(|mesh| *mesh == *proxy.mesh),
            Scope::Global => !changed.iter().any(|key| key.mesh == proxy.mesh && is_of_mesh(&key.kind)),
        }
    }
}

fn is_of_mesh(kind: &str) -> bool {
    kinds().by_name(kind).is_some_and(|kind| kind.scope == kodiak_model::Scope::Mesh)
}

impl Scope {
    /// Whether a proxy gets other resources. Without Dataplanes, this ignores added and removed resources and
    /// endpoints, and applies only if its own Dataplane is unchanged.
    fn differs(self, proxy: &ProxyKey, changed: &[ResourceKey], before: &Sets, after: &Sets) -> bool {
        match self {
            Self::Global | Self::Mesh => before.get(proxy) != after.get(proxy),
            Self::Base if changed.contains(&proxy.dataplane()) => false,
            Self::Base => before.get(proxy).zip(after.get(proxy)).is_some_and(|(one, other)| is_remade(one, other)),
        }
    }
}

fn changes_of<'a>(store: &Store, keys: impl IntoIterator<Item = &'a ResourceKey>) -> Vec<EngineChange> {
    let snapshot = store.snapshot();
    let typed = |key: &ResourceKey| kodiak_world::Change {
        key: key.clone(),
        revision: snapshot.revision(),
        resource: snapshot.world().get(key).cloned(),
    };
    keys.into_iter().filter_map(|key| EngineChange::of(&typed(key))).collect()
}

/// User resources, and internal ones of the control plane.
async fn load(store: &Store, text: &str) -> anyhow::Result<Option<String>> {
    let (own, users): (Vec<Value>, Vec<Value>) =
        lenient::parse(text)?.into_iter().map(|document| document.value).partition(|value| value["type"] == CONFIG);
    for document in own {
        let (key, spec) = (key(&document), document.to_string().into());
        let put = Write::Put { key, spec, labels: <_>::default(), owner: None, expect: Expect::Any };
        store.commit(Transaction(vec![put])).await?;
    }
    let users: Vec<String> = users.iter().map(Value::to_string).collect();
    feed::load(store, &users.join("\n---\n")).await
}

fn watcher(mesh: &str) -> String {
    let inbound = json!([{ "port": 1, "tags": { "kuma.io/service": "watcher" } }]);
    let networking = json!({ "address": "192.0.2.1", "inbound": inbound });
    let document = json!({ "type": "Dataplane", "mesh": mesh, "name": "watcher", "networking": networking });
    format!("\n---\n{document}\n")
}

fn documents(text: &str) -> anyhow::Result<Vec<ResourceKey>> {
    let documents = lenient::parse(text)?.into_iter().map(|document| key(&document.value));
    Ok(documents.collect())
}

/// A Mesh may have a `mesh` field, which is ignored.
fn key(document: &Value) -> ResourceKey {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    match text("type") {
        kind @ "Mesh" => ResourceKey::global(kind, text("name")),
        kind => ResourceKey::in_mesh(kind, text("mesh"), text("name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESHES: &str = "
type: Mesh
name: one
---
type: Mesh
name: two
---
type: Dataplane
mesh: one
name: dp-1
networking: { address: 10.0.0.1, inbound: [{ port: 80, tags: { kuma.io/service: web } }] }
";
    const MTLS: &str =
        "{ type: Mesh, name: one, mtls: { enabledBackend: ca, backends: [{ name: ca, type: builtin }] } }";
    const ANOTHER: &str = "
type: Dataplane
mesh: one
name: dp-2
networking: { address: 10.0.0.2, inbound: [{ port: 80, tags: { kuma.io/service: web } }] }
";
    const TIMEOUT: &str = "
type: MeshTimeout
mesh: one
name: t
spec: { to: [{ targetRef: { kind: Mesh }, default: { connectionTimeout: 9s } }] }
";

    fn passes(scope: Scope, expected: &str, change: &str) -> bool {
        let outcome = judge(scope, format!("# {expected}\n{MESHES}"), change).unwrap();
        matches!(outcome, Outcome::Passed)
    }

    #[test]
    fn differences_must_be_pushed_only_to_affected_proxies() {
        for (change, scope, mesh, seen) in [
            (MTLS, Scope::Global, "", true),
            (MTLS, Scope::Mesh, "one ", true),
            (MTLS, Scope::Base, "one ", true),
            (MTLS, Scope::Mesh, "two ", false),
            (TIMEOUT, Scope::Base, "one ", true),
            (TIMEOUT, Scope::Mesh, "two ", false),
            (TIMEOUT, Scope::Global, "", false),
            (ANOTHER, Scope::Mesh, "one ", true),
            (ANOTHER, Scope::Base, "one ", false),
            (ANOTHER, Scope::Base, "two ", false),
        ] {
            assert!(passes(scope, &format!("{mesh}{seen}"), change), "{mesh}{seen}: {change}");
        }
    }

    #[test]
    fn unnecessary_push_is_a_failure() {
        for (change, scope) in [(MTLS, Scope::Global), (TIMEOUT, Scope::Mesh), (MTLS, Scope::Base)] {
            assert!(!passes(scope, "one false", change), "{change}");
        }
    }

    #[test]
    fn unchanged_configuration_need_not_be_pushed() {
        for change in ["{ type: Mesh, name: three }", "{ type: Config, mesh: one, name: x, config: text }"] {
            assert!(passes(Scope::Global, "true", change), "{change}");
            assert!(passes(Scope::Global, "false", change), "{change}");
        }
    }
}
