//! Validation of one kind: from untyped JSON to a checked spec, the same way for every caller.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Arc,
};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{FieldPath, Problem, Problems, labels, written};

/// Spec of a kind, with its validation.
pub trait Spec: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Status that the control plane writes; [`NoStatus`] for kinds without one.
    type Status: Status;

    /// Whether outbounds can reference it: then it has ports, an SNI for each, and a name that must be valid in DNS.
    const DESTINATION: bool = false;

    /// Adds every violation to `problems`. Must depend on nothing but its arguments.
    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems);

    /// Warnings about deprecated or ineffective fields.
    fn warnings(&self, _ctx: &CheckCtx<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Labels derived from the spec: set to the value, or removed for `None`, overriding the user's.
    fn derived_labels(&self) -> Vec<(&'static str, Option<&'static str>)> {
        Vec::new()
    }

    /// Ports of a destination.
    fn ports(&self) -> Vec<PortSection> {
        Vec::new()
    }
}

/// One port of a destination; `section` is its name in KRIs and SNIs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortSection {
    pub port: u32,
    pub section: String,
}

impl PortSection {
    /// A port without a name uses its number as section.
    pub fn of(port: u32, name: Option<&str>) -> Self {
        let section = name.filter(|name| !name.is_empty()).map_or_else(|| port.to_string(), str::to_owned);
        Self { port, section }
    }
}

pub trait Status: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    const PRESENT: bool;
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
pub struct NoStatus {}

impl Status for NoStatus {
    const PRESENT: bool = false;
}

/// Inputs of a check beside the spec.
#[derive(Debug, Clone, Copy)]
pub struct CheckCtx<'a> {
    pub mesh: &'a str,
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

impl CheckCtx<'_> {
    pub fn display_name(&self) -> &str {
        labels::display_name(self.labels, self.name)
    }

    /// Only policies in a namespace have another role than `system`.
    pub fn is_system_role(&self) -> bool {
        self.labels.get(labels::POLICY_ROLE).is_none_or(|role| role == "system")
    }
}

/// A spec or status whose type only its kind knows. [`Erased::get`] gives it back.
#[derive(Clone)]
pub struct Erased(Arc<dyn Any + Send + Sync>);

impl Erased {
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// `None` when it is of another type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

/// Never the contents: they may be a Secret.
impl fmt::Debug for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erased").finish_non_exhaustive()
    }
}

/// A spec that passed validation, and the facts derived from it.
#[derive(Debug, Clone)]
pub struct CheckedSpec {
    /// Canonical JSON text: the fields that were written, as far as they are known, in the order of the type.
    pub json: String,
    /// The same spec as the type of its kind.
    pub value: Erased,
    pub warnings: Vec<String>,
    pub labels: Vec<(&'static str, Option<&'static str>)>,
    pub ports: Vec<PortSection>,
}

/// Type-erased [`Spec`], for the table of kinds.
pub struct Language {
    pub schema: fn() -> Schema,
    pub check: fn(Value, &FieldPath<'_>, &CheckCtx<'_>, &mut Problems) -> Option<CheckedSpec>,
    pub destination: bool,
    pub ports: fn(&str) -> Vec<PortSection>,
    /// Decodes a stored spec.
    pub decode: fn(&str) -> Result<Erased, serde_json::Error>,
    /// A stored spec as its type serializes it: with all defaults.
    pub complete: fn(&str) -> Result<Value, serde_json::Error>,
    /// Text that is stored for a spec, which conforms to the schema but need not be valid.
    pub stored: fn(&Value) -> Result<String, serde_json::Error>,
    /// Decodes a stored status.
    pub decode_status: fn(&str) -> Result<Erased, serde_json::Error>,
    pub empty_status: fn() -> Option<String>,
    pub canonical_status: fn(Value) -> Option<String>,
}

impl Language {
    pub const fn of<S: Spec>() -> Self {
        Self {
            schema: schema_of::<S>,
            check: check_as::<S>,
            destination: S::DESTINATION,
            ports: |json| decode::<S>(json).map(|spec| spec.ports()).unwrap_or_default(),
            decode: |json| decode::<S>(json).map(Erased::new),
            complete: |json| decode::<S>(json).map(|spec| to_value(&spec)),
            stored: |written| S::deserialize(written).map(|spec| stored(&spec, written)),
            decode_status: |json| decode::<S::Status>(json).map(Erased::new),
            empty_status: || S::Status::PRESENT.then(|| to_json(&S::Status::default())),
            canonical_status: |value| {
                let status = serde_json::from_value::<S::Status>(value).ok()?;
                S::Status::PRESENT.then(|| to_json(&status))
            },
        }
    }
}

/// Deserializes a stored spec. Fails only for text that this version would not have stored.
pub fn decode<S: DeserializeOwned>(json: &str) -> Result<S, serde_json::Error> {
    serde_json::from_str(json)
}

pub fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("specs and statuses are made of maps with string keys, lists and scalars")
}

fn stored<S: Spec>(spec: &S, written: &Value) -> String {
    written::as_written(to_value(spec), written).to_string()
}

/// A spec as JSON, with all defaults.
pub(crate) fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("specs are made of maps with string keys, lists and scalars")
}

pub(crate) fn schema_of<S: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<S>()
}

fn check_as<S: Spec>(
    spec: Value,
    root: &FieldPath<'_>,
    ctx: &CheckCtx<'_>,
    problems: &mut Problems,
) -> Option<CheckedSpec> {
    let written = spec;
    let spec: S = match serde_path_to_error::deserialize(&written) {
        Ok(spec) => spec,
        Err(error) => {
            problems.push(unreadable(root, &error));
            return None;
        }
    };
    let before = problems.len();
    spec.check(ctx, problems);
    (problems.len() == before).then(|| CheckedSpec {
        json: stored(&spec, &written),
        warnings: spec.warnings(ctx),
        labels: spec.derived_labels(),
        ports: spec.ports(),
        value: Erased::new(spec),
    })
}

/// The schema was validated before, so this reports only violations that a schema cannot express.
pub(crate) fn unreadable(root: &FieldPath<'_>, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let mut path = root.to_string();
    for segment in error.path() {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Map { key } | Segment::Enum { variant: key } if path.is_empty() => path.push_str(key),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                path.push('.');
                path.push_str(key);
            }
            Segment::Seq { index } => {
                let _ = write!(path, "[{index}]");
            }
            Segment::Unknown => (),
        }
    }
    Problem { path, message: error.inner().to_string() }
}
