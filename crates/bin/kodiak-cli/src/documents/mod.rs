//! From files to validated resources: reading, replacing placeholders, splitting, validating, ordering.
//!
//! In: the arguments of `-f`. Out: valid resources, or all findings with their locations in the files.

mod check;
mod load;
mod near;
mod offline;
mod order;
mod read;
mod template;

pub(crate) use check::{Checkup, FileResource, Names, check, identify, unknown_kind};
pub(crate) use near::nearest;
pub(crate) use order::{Phase, phases};
pub use read::FileArgs;
pub(crate) use read::{SourceFile, fill_template, read_template};

use std::collections::BTreeMap;

use kodiak_model::yaml::{self, Mark};

/// Problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Index in the list of files.
    pub(crate) file: usize,
    pub(crate) spot: Spot,
    /// Subject of the finding: `MeshTimeout "slow"`, or the file itself.
    pub(crate) subject: String,
    /// Path of the field. Empty if the finding is not about a field.
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    /// Would not be a reason to reject the file.
    Warning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) mark: Mark,
    /// Whether the field itself is there, or only its parent.
    pub(crate) exact: bool,
}

impl Spot {
    pub(crate) fn at(mark: Mark) -> Self {
        Self { mark, exact: true }
    }

    /// Start of a document, for findings without a location in it.
    fn start(origin: Origin, path: &str) -> Self {
        Self { mark: Mark { line: origin.line, column: 1, length: 1 }, exact: path.is_empty() }
    }
}

/// Document of a file that a resource comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) file: usize,
    pub(crate) document: usize,
    pub(crate) line: usize,
}

impl Origin {
    /// `meshes.yaml:12`
    pub(crate) fn show(self, files: &[SourceFile]) -> String {
        let file = files.get(self.file).map_or("?", |file| file.name.as_str());
        format!("{file}:{}", self.line)
    }
}

/// Finds locations of fields afterwards. Locations are not stored, since there may be very many documents and findings
/// are rare; a file is parsed again for its first finding.
pub(crate) struct Locator<'a> {
    files: &'a [SourceFile],
    read: BTreeMap<usize, Vec<yaml::Document>>,
}

impl<'a> Locator<'a> {
    pub(crate) fn new(files: &'a [SourceFile]) -> Self {
        Self { files, read: BTreeMap::new() }
    }

    /// Finding of the server.
    pub(crate) fn finding(&mut self, resource: &FileResource, path: &str, message: String) -> Finding {
        Finding {
            file: resource.origin.file,
            spot: self.spot(resource.origin, path),
            subject: format!("{} {:?}", resource.checked.kind.name, resource.checked.name),
            path: path.to_owned(),
            message,
            severity: Severity::Error,
        }
    }

    fn spot(&mut self, origin: Origin, path: &str) -> Spot {
        let read = |file: usize| self.files.get(file).and_then(|file| yaml::parse(&file.text).ok()).unwrap_or_default();
        let documents = self.read.entry(origin.file).or_insert_with(|| read(origin.file));
        let places = documents.get(origin.document).map(|document| &document.places);
        places.and_then(|places| spot(places, path)).unwrap_or_else(|| Spot::start(origin, path))
    }
}

fn spot(places: &yaml::Places, path: &str) -> Option<Spot> {
    places.find(path).map(|found| Spot { mark: found.mark, exact: found.exact })
}
