//! Writes an import to the control plane, in an order in which no CA is created and no address moves:
//!
//! 1. Meshes that do not exist yet, without mTLS: their Secrets belong to them.
//! 2. Secrets: CAs and signing keys.
//! 3. Meshes as they are: a builtin backend finds its CA.
//! 4. Services with their virtual addresses, before a Dataplane could make the control plane generate one.
//! 5. All others; Dataplanes last.
//! 6. Signing keys of user tokens: they may invalidate the token of this command.
//!
//! Rejections by the control plane are reported, and the import goes on.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use indicatif::ProgressBar;
use kodiak_client::{Client, ListQuery};
use kodiak_kinds::kinds;
use kodiak_model::{Draft, Place};
use serde_json::{Value, json};

use super::Importing;
use super::report::{Applied, LeftOutEntry};
use crate::commands::apply::{Outcome, Sender, is_same};
use crate::documents::{FileResource, Origin};
use crate::session::Session;

const SERVICES: [&str; 3] = ["MeshService", "MeshExternalService", "MeshMultiZoneService"];
/// Kinds of the policies that a control plane creates with a mesh.
const INITIAL_POLICIES: [&str; 3] = ["MeshTimeout", "MeshCircuitBreaker", "MeshRetry"];

/// Each step is finished before the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Secrets,
    Meshes,
    Zones,
    Services,
    Rest,
    Dataplanes,
    UserSigningKeys,
}

impl Step {
    fn of(kind: &str, name: &str) -> Self {
        match kind {
            "GlobalSecret" if name.starts_with("user-token-signing-key") => Self::UserSigningKeys,
            "Secret" | "GlobalSecret" => Self::Secrets,
            "Mesh" => Self::Meshes,
            "Zone" => Self::Zones,
            "Dataplane" => Self::Dataplanes,
            kind if SERVICES.contains(&kind) => Self::Services,
            _ => Self::Rest,
        }
    }
}

pub(super) async fn run(session: &Session, resources: Vec<Importing>) -> anyhow::Result<Applied> {
    let client = session.client()?;
    let bar = session.terminal.progress("Importing", resources.len());
    let mut import = Import {
        client: &client,
        bar,
        applied: Applied::default(),
        without_mesh: BTreeSet::new(),
        new_meshes: BTreeSet::new(),
    };
    import.initial_policies(&resources).await?;
    let resources = import.without_conflicting_cas(resources).await?;
    import.create_meshes(&resources).await?;
    let mut steps: BTreeMap<Step, Vec<Importing>> = BTreeMap::new();
    for one in resources {
        let checked = &one.resource.checked;
        steps.entry(Step::of(checked.kind.name, &checked.name)).or_default().push(one);
    }
    for (step, mut resources) in steps {
        resources.retain(|one| import.has_mesh(one));
        if step == Step::Services {
            import.send_services(resources).await?;
        } else {
            import.send(resources.into_iter().map(|one| one.resource).collect()).await?;
        }
    }
    import.bar.finish_and_clear();
    Ok(import.applied)
}

struct Import<'a> {
    client: &'a Client,
    bar: ProgressBar,
    applied: Applied,
    /// Meshes that were rejected.
    without_mesh: BTreeSet<String>,
    /// Meshes that this import created.
    new_meshes: BTreeSet<String>,
}

impl Import<'_> {
    /// Policies that only this control plane has would be merged with those of the export.
    async fn initial_policies(&mut self, resources: &[Importing]) -> anyhow::Result<()> {
        let is = |one: &Importing, kind: &str| one.resource.checked.kind.name == kind;
        for mesh in resources.iter().filter(|one| is(one, "Mesh")) {
            let name = mesh.resource.checked.name.as_str();
            if self.client.get(mesh.resource.id()).await?.is_none() {
                continue;
            }
            for kind in INITIAL_POLICIES.iter().filter_map(|kind| kinds().by_name(kind)) {
                for policy in self.client.list_all(&ListQuery::all_of(kind, Some(name)), |_, _| ()).await? {
                    let policy = policy["name"].as_str().unwrap_or_default().to_owned();
                    let imported = |one: &Importing| {
                        let checked = &one.resource.checked;
                        is(one, kind.name) && checked.mesh == name && checked.name == policy
                    };
                    if !resources.iter().any(imported) {
                        self.applied.notes.push(format!(
                            "{0} {policy:?} of mesh {name:?} is not in the export and stays in force; delete it with `kodiak delete {1} {policy} -m {name}` for the behaviour of Kuma",
                            kind.name,
                            kind.name.to_ascii_lowercase()
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Without meshes whose CA would be replaced: proxies have certificates of the CA that is stored.
    async fn without_conflicting_cas(&mut self, resources: Vec<Importing>) -> anyhow::Result<Vec<Importing>> {
        let mut kept = Vec::new();
        for one in &resources {
            let checked = &one.resource.checked;
            if checked.kind.name != "Secret" || !checked.name.starts_with(&format!("{}.ca-builtin-", checked.mesh)) {
                continue;
            }
            let stored = self.client.get(one.resource.id()).await?;
            let imported = one.resource.draft.spec.as_ref().and_then(|spec| spec.get("data"));
            if stored.is_some_and(|stored| stored.get("data") != imported) {
                let reason = "the mesh has another CA here, whose certificates proxies may have".to_owned();
                let advice = "delete the mesh here, or import into another control plane";
                let at = ("Mesh", "", checked.mesh.as_str());
                if self.without_mesh.insert(checked.mesh.clone()) {
                    self.applied.rejected.push(LeftOutEntry::new(at, reason, advice));
                }
            }
        }
        for one in resources {
            if self.has_mesh(&one) {
                kept.push(one);
            }
        }
        Ok(kept)
    }

    /// Whether the mesh of a resource was not rejected.
    fn has_mesh(&self, one: &Importing) -> bool {
        let checked = &one.resource.checked;
        let mesh = if checked.kind.name == "Mesh" { &checked.name } else { &checked.mesh };
        !self.without_mesh.contains(mesh)
    }

    /// Meshes that do not exist yet, without mTLS: it needs the Secrets.
    async fn create_meshes(&mut self, resources: &[Importing]) -> anyhow::Result<()> {
        let mut meshes = Vec::new();
        for one in resources.iter().filter(|one| one.resource.checked.kind.name == "Mesh") {
            let spec = one.resource.draft.spec.clone().unwrap_or_default();
            if self.client.get(one.resource.id()).await?.is_none() {
                meshes.push(without_mtls(&one.resource, spec));
            }
        }
        let sent = self.sender().send(&meshes).await;
        for (resource, outcome) in meshes.iter().zip(&sent.outcomes) {
            match outcome {
                Outcome::Failed(error) => self.reject(resource, reason_of(error)),
                _ => _ = self.new_meshes.insert(resource.checked.name.clone()),
            }
        }
        sent.broken.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn send(&mut self, resources: Vec<FileResource>) -> anyhow::Result<()> {
        let sent = self.sender().send(&resources).await;
        for (resource, outcome) in resources.iter().zip(sent.outcomes) {
            self.count(resource, outcome);
        }
        sent.broken.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Services with an address are written with it, unless somebody else has it.
    async fn send_services(&mut self, services: Vec<Importing>) -> anyhow::Result<()> {
        let mut others = Vec::new();
        for Importing { resource, address } in services {
            let Some(address) = address else {
                others.push(resource);
                continue;
            };
            let stored = self.client.get(resource.id()).await?;
            if stored.as_ref().and_then(stored_address) == Some(address.to_string()) {
                let same = stored.is_some_and(|stored| is_same(&resource, &stored));
                if same {
                    self.count(&resource, Outcome::Unchanged);
                } else {
                    others.push(resource);
                }
                continue;
            }
            let mut body = resource.document();
            body["status"] = json!({ "vips": [{ "ip": address }] });
            match self.client.put_with_address(resource.id(), Bytes::from(body.to_string())).await {
                Ok(put) if put.created => self.count(&resource, Outcome::Created { warnings: put.warnings }),
                Ok(put) => self.count(&resource, Outcome::Changed { warnings: put.warnings }),
                Err(error) if error.is_unreachable() => return Err(error.into()),
                Err(error) => {
                    let reason = format!("its virtual address {address} is not kept: {}", reason_of(&error));
                    let at =
                        (resource.checked.kind.name, resource.checked.mesh.as_str(), resource.checked.name.as_str());
                    let advice = "clients that cache addresses must resolve its hostname again";
                    self.applied.rejected.push(LeftOutEntry::new(at, reason, advice));
                    others.push(resource);
                }
            }
        }
        self.send(others).await
    }

    fn sender(&self) -> Sender<'_> {
        Sender { client: self.client, dry_run: false, bar: self.bar.clone() }
    }

    fn count(&mut self, resource: &FileResource, outcome: Outcome) {
        let is_new = resource.checked.kind.name == "Mesh" && self.new_meshes.contains(&resource.checked.name);
        match outcome {
            Outcome::Changed { .. } | Outcome::Unchanged if is_new => self.applied.created += 1,
            Outcome::Created { .. } => self.applied.created += 1,
            Outcome::Changed { .. } => self.applied.changed += 1,
            Outcome::Unchanged => self.applied.unchanged += 1,
            Outcome::Failed(error) => self.reject(resource, reason_of(&error)),
            Outcome::NotSent => (),
        }
    }

    fn reject(&mut self, resource: &FileResource, reason: String) {
        let checked = &resource.checked;
        if checked.kind.name == "Mesh" {
            self.without_mesh.insert(checked.name.clone());
        }
        let at = (checked.kind.name, checked.mesh.as_str(), checked.name.as_str());
        self.applied.rejected.push(LeftOutEntry::new(at, reason, ""));
    }
}

/// Problems of a rejected document, or the error itself.
fn reason_of(error: &kodiak_client::ClientError) -> String {
    match error.refusal() {
        Some(refusal) if !refusal.problems.is_empty() => {
            let problems = refusal.problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
            problems.collect::<Vec<_>>().join("; ")
        }
        Some(refusal) => refusal.to_string(),
        None => error.to_string(),
    }
}

fn stored_address(service: &Value) -> Option<String> {
    let ip = service.pointer("/status/vips/0/ip").or_else(|| service.pointer("/status/vip/ip"))?;
    ip.as_str().map(str::to_owned)
}

fn without_mtls(mesh: &FileResource, mut spec: Value) -> FileResource {
    if let Value::Object(fields) = &mut spec {
        fields.remove("mtls");
    }
    let draft = Draft { spec: Some(spec), ..mesh.draft.clone() };
    let checked = kodiak_model::check(mesh.checked.kind, draft.clone(), &Place::Global);
    // A Mesh without mTLS has no further requirements but zoneEgress, which the control plane reports.
    let checked = checked.unwrap_or_else(|_| mesh.checked.clone());
    FileResource { origin: Origin { file: 0, document: 0, line: 1 }, draft, checked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_before_meshes_and_keys_of_user_tokens_last() {
        let kinds = [
            ("GlobalSecret", "user-token-signing-key-1"),
            ("Dataplane", "web-1"),
            ("MeshTimeout", "slow"),
            ("MeshService", "web"),
            ("Mesh", "shop"),
            ("Secret", "shop.ca-builtin-key-ca-1"),
        ];
        let mut steps: Vec<Step> = kinds.iter().map(|(kind, name)| Step::of(kind, name)).collect();
        steps.sort();
        let expected =
            [Step::Secrets, Step::Meshes, Step::Services, Step::Rest, Step::Dataplanes, Step::UserSigningKeys];
        assert_eq!(steps, expected);
    }
}
