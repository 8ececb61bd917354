//! Validates documents: from text to resources with kind and mesh, or findings.

use std::collections::BTreeMap;

use kodiak_client::ResourceId;
use kodiak_kinds::{Kind, LegacyKind, kinds};
use kodiak_model::{
    Checked, Draft, Place, Problems, ResourceKey, Scope, Shape,
    check::unknown_fields,
    yaml::{self, Document},
};
use serde_json::{Map, Value};

use super::{Finding, Origin, Severity, SourceFile, Spot, nearest, spot};

/// Valid resource.
#[derive(Debug, Clone)]
pub(crate) struct FileResource {
    pub(crate) origin: Origin,
    /// Document as the user wrote it; this is sent.
    pub(crate) draft: Draft,
    /// Canonical form; this is compared.
    pub(crate) checked: Checked,
}

impl FileResource {
    pub(crate) fn id(&self) -> ResourceId<'_> {
        ResourceId { kind: self.checked.kind, mesh: &self.checked.mesh, name: &self.checked.name }
    }

    /// Body of a PUT.
    pub(crate) fn body(&self) -> Vec<u8> {
        serde_json::to_vec(&self.document()).expect("a JSON value is always written")
    }

    /// Envelope and spec, without status and other fields of the server.
    pub(crate) fn document(&self) -> Value {
        let Draft { kind, mesh, name, labels, spec, status: _, unknown: _ } = &self.draft;
        let mut body = Map::new();
        body.insert("type".to_owned(), kind.clone().into());
        if let Some(mesh) = mesh {
            body.insert("mesh".to_owned(), mesh.clone().into());
        }
        body.insert("name".to_owned(), name.clone().into());
        if !labels.is_empty() {
            let labels = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
            body.insert("labels".to_owned(), labels.collect());
        }
        match (self.checked.kind.shape, spec) {
            (Shape::Legacy, Some(Value::Object(fields))) => body.extend(fields.clone()),
            (Shape::Legacy | Shape::Plugin, Some(spec)) => {
                body.insert("spec".to_owned(), spec.clone());
            }
            (Shape::Legacy | Shape::Plugin, None) => (),
        }
        Value::Object(body)
    }
}

/// Defaults for documents.
pub(crate) struct Names<'a> {
    /// Mesh of mesh-scoped resources that name none.
    pub(crate) mesh: &'a str,
}

/// Document of which only kind, mesh and name are validated.
pub(crate) struct Identified {
    pub(crate) kind: &'static Kind,
    pub(crate) draft: Draft,
    pub(crate) origin: Origin,
    places: yaml::Places,
    warnings: Vec<String>,
}

impl Identified {
    pub(crate) fn mesh(&self) -> &str {
        self.draft.mesh.as_deref().unwrap_or_default()
    }
}

/// Result of validation: valid resources and findings, both in the order of the files.
#[derive(Debug, Default)]
pub(crate) struct Checkup {
    pub(crate) resources: Vec<FileResource>,
    pub(crate) findings: Vec<Finding>,
}

/// Validates all documents.
pub(crate) fn check(files: &[SourceFile], names: &Names<'_>, place: &Place) -> Checkup {
    let Checkup { mut resources, mut findings } = Checkup::default();
    let mut seen: BTreeMap<ResourceKey, Origin> = BTreeMap::new();
    for one in documents(files, names) {
        let one = match one {
            Ok(one) => one,
            Err(found) => {
                findings.extend(found);
                continue;
            }
        };
        let Identified { kind, draft, origin, places, warnings } = one;
        let subject = subject(&draft, origin);
        if kind.read_only() {
            let message = format!("{} is written by the control plane alone; leave it out", kind.name);
            findings.push(finding(&subject, origin, &places, "type", message));
            continue;
        }
        let key = ResourceKey::in_mesh(kind.name, draft.mesh.as_deref().unwrap_or_default(), &draft.name);
        if let Some(first) = seen.get(&key) {
            let message = format!("this resource is written twice; the first is at {}", first.show(files));
            findings.push(finding(&subject, origin, &places, "name", message));
            continue;
        }
        seen.insert(key, origin);
        match kodiak_model::check(kind, draft.clone(), place) {
            Ok(mut checked) => {
                checked.warnings.splice(0..0, warnings);
                resources.push(FileResource { origin, draft, checked });
            }
            Err(problems) => {
                findings.extend(from_problems(&subject, origin, &places, problems));
                for unknown in draft.spec.iter().flat_map(|spec| unknown_fields(kind, spec)) {
                    let found = finding(&subject, origin, &places, &unknown.path, unknown.to_string());
                    findings.push(Finding { severity: Severity::Warning, ..found });
                }
            }
        }
    }
    Checkup { resources, findings }
}

/// Reads only kind, mesh and name: enough to delete a resource, even an invalid one.
pub(crate) fn identify(files: &[SourceFile], names: &Names<'_>) -> Result<Vec<Identified>, Vec<Finding>> {
    let mut identified = Vec::new();
    let mut findings = Vec::new();
    for one in documents(files, names) {
        match one {
            Ok(one) if one.draft.name.is_empty() => {
                let subject = subject(&one.draft, one.origin);
                findings.push(finding(&subject, one.origin, &one.places, "name", "cannot be empty".to_owned()));
            }
            Ok(one) => identified.push(one),
            Err(found) => findings.extend(found),
        }
    }
    if findings.is_empty() { Ok(identified) } else { Err(findings) }
}

fn documents<'a>(
    files: &'a [SourceFile],
    names: &'a Names<'_>,
) -> impl Iterator<Item = Result<Identified, Vec<Finding>>> + 'a {
    files.iter().enumerate().flat_map(move |(file, source)| match yaml::parse(&source.text) {
        Ok(documents) => {
            let documents = documents.into_iter().enumerate();
            let all = documents.map(|(document, found)| {
                let origin = Origin { file, document, line: found.line };
                identify_one(found, origin, names)
            });
            all.collect::<Vec<_>>()
        }
        Err(error) => vec![Err(vec![Finding {
            file,
            spot: Spot::at(error.mark),
            subject: "cannot be read as YAML".to_owned(),
            path: String::new(),
            message: error.message,
            severity: Severity::Error,
        }])],
    })
}

fn identify_one(document: Document, origin: Origin, names: &Names<'_>) -> Result<Identified, Vec<Finding>> {
    let Document { value, places, line: _ } = document;
    let is_list = value.get("items").is_some_and(Value::is_array) && value.get("type").is_none();
    let mut draft = match kodiak_kinds::draft(value) {
        Ok(draft) => draft,
        Err(problems) => {
            let subject = format!("document {}", origin.document + 1);
            return Err(from_problems(&subject, origin, &places, problems).collect());
        }
    };
    let Some(kind) = kinds().by_name(&draft.kind) else {
        let message = if is_list {
            "this is a list of resources; write each as a document of its own, as `kodiak get … -o yaml` does"
                .to_owned()
        } else {
            unknown_kind(&draft.kind)
        };
        return Err(vec![finding(&subject(&draft, origin), origin, &places, "type", message)]);
    };
    let mut warnings = Vec::new();
    match kind.scope {
        Scope::Mesh => {
            draft.mesh.get_or_insert_with(|| names.mesh.to_owned());
        }
        Scope::Global => {
            if draft.mesh.take().is_some_and(|mesh| !mesh.is_empty()) {
                warnings.push(format!("{} has global scope; the field mesh is ignored", kind.name));
            }
        }
    }
    Ok(Identified { kind, draft, origin, places, warnings })
}

/// Message for an unknown kind.
pub(crate) fn unknown_kind(typed: &str) -> String {
    if typed.is_empty() {
        return "the kind is missing; write for example `type: MeshTimeout`".to_owned();
    }
    if let Some(legacy) = LegacyKind::by_arg(typed) {
        return legacy.advice();
    }
    let by_other_spelling = kinds().by_arg(typed).map(|kind| kind.name);
    let near = by_other_spelling.or_else(|| nearest(typed, kinds().iter().map(|kind| kind.name)));
    match near {
        Some(near) => format!("there is no kind {typed:?}; did you mean {near}?"),
        None => format!("there is no kind {typed:?}; `kodiak get kinds` lists them"),
    }
}

fn subject(draft: &Draft, origin: Origin) -> String {
    match (draft.kind.as_str(), draft.name.as_str()) {
        ("", _) => format!("document {}", origin.document + 1),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind} {name:?}"),
    }
}

fn from_problems<'a>(
    subject: &'a str,
    origin: Origin,
    places: &'a yaml::Places,
    problems: Problems,
) -> impl Iterator<Item = Finding> + 'a {
    problems.into_vec().into_iter().map(move |problem| finding(subject, origin, places, &problem.path, problem.message))
}

fn finding(subject: &str, origin: Origin, places: &yaml::Places, path: &str, message: String) -> Finding {
    Finding {
        file: origin.file,
        spot: spot(places, path).unwrap_or_else(|| Spot::start(origin, path)),
        subject: subject.to_owned(),
        path: path.to_owned(),
        message,
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests;
