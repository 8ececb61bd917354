//! Result of an import: documents to write, conversions, and what is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use kodiak_kinds::kinds;
use kodiak_model::{Checked, Draft, Place};
use serde_json::{Map, Value, json};

/// Kind, mesh and name of a resource in the export, or of one to write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedResource {
    pub kind: String,
    /// Empty for kinds of global scope.
    pub mesh: String,
    pub name: String,
}

#[derive(Debug, Clone, Default)]
pub struct KumaImport {
    /// Valid documents to write, in the order of the export; converted ones last.
    pub documents: Vec<ImportedResource>,
    pub conversions: Vec<KumaConversion>,
    /// Resources that cannot be taken over.
    pub left_out: Vec<NotImported>,
    /// Resources that a new control plane does not need.
    pub not_needed: Vec<NotImported>,
}

/// Valid resource to write.
#[derive(Debug, Clone)]
pub struct ImportedResource {
    pub resource: ExportedResource,
    pub draft: Draft,
    pub checked: Checked,
    /// Whether it is as it was in the export.
    pub as_it_is: bool,
    /// Virtual address to keep.
    pub address: Option<Ipv4Addr>,
}

/// Legacy resources and their replacements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KumaConversion {
    pub from: Vec<ExportedResource>,
    /// Empty where nothing is needed for the same behaviour.
    pub to: Vec<ExportedResource>,
    /// Differences in behaviour, and names that change.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotImported {
    pub resource: ExportedResource,
    pub reason: String,
    /// Instructions for the user; may be empty.
    pub advice: String,
}

#[derive(Debug, Default)]
pub(super) struct Outcomes {
    import: KumaImport,
    /// Names of converted resources, by kind and mesh.
    names: BTreeSet<ExportedResource>,
}

impl Outcomes {
    pub(super) fn finish(self) -> KumaImport {
        let mut import = self.import;
        import.conversions.sort_by(|a, b| a.from.cmp(&b.from));
        import.left_out = merged(import.left_out);
        import
    }

    pub(super) fn leave_out(&mut self, resource: ExportedResource, reason: String, advice: impl Into<String>) {
        self.import.left_out.push(NotImported { resource, reason, advice: advice.into() });
    }

    pub(super) fn skip(&mut self, resource: ExportedResource, reason: &str) {
        let reason = reason.to_owned();
        self.import.not_needed.push(NotImported { resource, reason, advice: String::new() });
    }

    /// Takes a document over as it is, without fields of the server.
    pub(super) fn take_over(&mut self, resource: ExportedResource, mut document: Value) {
        if resource.kind == "MeshService"
            && let Some(Value::Object(spec)) = document.get_mut("spec")
        {
            // Observed: the new control plane observes them itself.
            spec.remove("state");
            spec.remove("identities");
        }
        self.add(resource, document, true);
    }

    /// Returns whether the document is valid; otherwise the resource is left out.
    pub(super) fn add(&mut self, resource: ExportedResource, document: Value, as_it_is: bool) -> bool {
        let address = address_of(&document);
        match checked(document, &resource.mesh) {
            Ok((draft, checked)) => {
                self.import.documents.push(ImportedResource { resource, draft, checked, as_it_is, address });
                true
            }
            Err(reason) => {
                self.leave_out(resource, reason, "correct it in the export, and import it again");
                false
            }
        }
    }

    /// Adds converted documents: kind, name and spec of each. All of `from` are left out if one is invalid.
    pub(super) fn convert(&mut self, from: &[ExportedResource], to: Vec<NewResource>, notes: Vec<String>) {
        let mut written = Vec::new();
        for NewResource { kind, mesh, name, spec } in to {
            let is_global = mesh.is_empty();
            let resource = self.free_name(ExportedResource { kind: kind.to_owned(), mesh, name });
            let mut document = Map::from_iter([("type".to_owned(), json!(kind))]);
            if !is_global {
                document.insert("mesh".to_owned(), json!(resource.mesh));
            }
            document.insert("name".to_owned(), json!(resource.name));
            document.insert("spec".to_owned(), spec);
            match checked(Value::Object(document), &resource.mesh) {
                Ok((draft, checked)) => {
                    written.push(ImportedResource { resource, draft, checked, as_it_is: false, address: None });
                }
                Err(reason) => {
                    for old in from {
                        let reason = format!("as a {kind} it is invalid: {reason}");
                        self.leave_out(old.clone(), reason, format!("write a {kind} by hand"));
                    }
                    return;
                }
            }
        }
        let to = written.iter().map(|one| one.resource.clone()).collect();
        self.names.extend(written.iter().map(|one| one.resource.clone()));
        self.import.documents.extend(written);
        self.note(KumaConversion { from: from.to_vec(), to, notes });
    }

    pub(super) fn note(&mut self, conversion: KumaConversion) {
        self.import.conversions.push(conversion);
    }

    /// One legacy policy may become several new ones.
    fn free_name(&self, resource: ExportedResource) -> ExportedResource {
        if !self.names.contains(&resource) {
            return resource;
        }
        let numbered = |n: usize| ExportedResource { name: format!("{}-{n}", resource.name), ..resource.clone() };
        (2..=self.names.len() + 2)
            .map(numbered)
            .find(|other| !self.names.contains(other))
            .expect("there are enough numbers")
    }
}

/// Resource that replaces legacy ones. The mesh is empty for kinds of global scope.
pub(super) struct NewResource {
    pub(super) kind: &'static str,
    pub(super) mesh: String,
    pub(super) name: String,
    pub(super) spec: Value,
}

/// Zone labels and the like are validated by the control plane, which knows its zone.
fn checked(document: Value, mesh: &str) -> Result<(Draft, Checked), String> {
    let joined = |problems: kodiak_model::Problems| problems.to_string();
    let mut draft = kodiak_kinds::draft(document).map_err(joined)?;
    let kind = kinds().by_name(&draft.kind).ok_or_else(|| format!("there is no kind {:?}", draft.kind))?;
    draft.mesh = (!mesh.is_empty()).then(|| mesh.to_owned());
    draft.status = None;
    let checked = kodiak_model::check(kind, draft.clone(), &Place::Global).map_err(joined)?;
    Ok((draft, checked))
}

/// The virtual address in the status of a destination: the first one that Kuma allocated.
fn address_of(document: &Value) -> Option<Ipv4Addr> {
    let status = document.get("status")?;
    let many = status.get("vips").and_then(Value::as_array).and_then(|vips| vips.first());
    many.or_else(|| status.get("vip"))?.get("ip")?.as_str()?.parse().ok()
}

/// One entry for each resource, with all different reasons.
fn merged(left_out: Vec<NotImported>) -> Vec<NotImported> {
    let mut all: BTreeMap<ExportedResource, NotImported> = BTreeMap::new();
    for one in left_out {
        match all.get_mut(&one.resource) {
            Some(known) if known.reason.contains(&one.reason) => (),
            Some(known) => known.reason = format!("{}; {}", known.reason, one.reason),
            None => _ = all.insert(one.resource.clone(), one),
        }
    }
    all.into_values().collect()
}
