//! Annotations of a Pod that list the destinations of its proxy. On Kubernetes they take the place of
//! `networking.transparentProxying` of a Dataplane: `reachableServices` and `reachableBackends`.
//!
//! The fields of a Dataplane and the annotations have the same rules. An unknown field is a warning in a Dataplane, and a
//! problem here, because nobody reads warnings about a Pod.

#[cfg(test)]
mod tests;

use std::{fmt, sync::OnceLock};

use super::{ReachableBackends, check::reachable};
use crate::{
    FieldPath, Problem, Problems, Shape,
    conform::{UnknownField, conform},
    language::{schema_of, unreadable},
    schema::Node,
    tags,
    yaml::{self, Document, Mark, YamlError},
};

/// Values of `kuma.io/service`, separated by commas.
pub const REACHABLE_SERVICES: &str = "kuma.io/transparent-proxying-reachable-services";
/// YAML with a list `refs`.
pub const REACHABLE_BACKENDS: &str = "kuma.io/reachable-backends";

/// Problem in the text of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationProblem {
    pub annotation: &'static str,
    /// Line within the annotation, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path within the annotation, such as `refs[0].port`. Empty when the problem is not about one field.
    pub path: String,
    pub message: String,
}

impl fmt::Display for AnnotationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { annotation, line, column: _, path, message } = self;
        write!(f, "{annotation}: line {line}: ")?;
        if path.is_empty() { f.write_str(message) } else { write!(f, "{path}: {message}") }
    }
}

impl std::error::Error for AnnotationProblem {}

/// `reachableServices` of the text of [`REACHABLE_SERVICES`]. Spaces and line breaks around names are ignored, and so is
/// a comma at the end. Without any name the list is empty, which means all services.
pub fn reachable_services(text: &str) -> Result<Vec<String>, Vec<AnnotationProblem>> {
    let (mut services, mut problems) = (Vec::new(), Vec::new());
    let mut start = 0;
    let items: Vec<&str> = text.split(',').collect();
    for (n, item) in items.iter().enumerate() {
        let name = item.trim();
        let is_end = n + 1 == items.len();
        if tags::is_value(name) {
            services.push(name.to_owned());
        } else if !(name.is_empty() && is_end) {
            let offset = start + (item.len() - item.trim_start().len());
            let message = if name.is_empty() {
                "has no name between two commas".to_owned()
            } else {
                format!(
                    "{name:?} is not a value of kuma.io/service: write alphanumeric characters, dots, dashes, colons and \
                     underscores, and a comma between services"
                )
            };
            problems.push(problem_at(text, offset, format!("[{n}]"), message));
        }
        start += item.len() + 1;
    }
    if problems.is_empty() { Ok(services) } else { Err(problems) }
}

/// Position of a byte of the text.
fn problem_at(text: &str, offset: usize, path: String, message: String) -> AnnotationProblem {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    AnnotationProblem {
        annotation: REACHABLE_SERVICES,
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        path,
        message,
    }
}

/// `reachableBackends` of the text of [`REACHABLE_BACKENDS`]. An empty text is a problem: it could mean all
/// destinations or none.
pub fn reachable_backends(text: &str) -> Result<ReachableBackends, Vec<AnnotationProblem>> {
    let documents = yaml::parse(text).map_err(|YamlError { message, mark }| vec![in_yaml(mark, "", message)])?;
    let mut documents = documents.into_iter();
    let Some(Document { mut value, places, line }) = documents.next() else {
        let message = "is empty: write `refs: []` for no destination, or remove the annotation for all destinations";
        return Err(vec![in_yaml(START, "", message.to_owned())]);
    };
    let start = Mark { line, ..START };
    let mut found: Vec<AnnotationProblem> = documents
        .map(|second| in_yaml(Mark { line: second.line, ..START }, "", "has a second YAML document".to_owned()))
        .collect();

    let node = NODE.get_or_init(|| Node::compile(&schema_of::<ReachableBackends>()));
    let findings = conform(&mut value, node, Shape::Legacy, &FieldPath::ROOT);
    let mut problems = findings.problems;
    for field in findings.unknown {
        let message = unknown(&field);
        problems.push(Problem { path: field.path, message });
    }
    let backends = match serde_path_to_error::deserialize::<_, ReachableBackends>(&value) {
        Ok(backends) => {
            reachable::check_backends(&backends, &FieldPath::ROOT, &mut problems);
            Some(backends)
        }
        Err(error) => {
            // The schema reports most of these, with a better text.
            if problems.is_empty() {
                problems.push(unreadable(&FieldPath::ROOT, &error));
            }
            None
        }
    };
    found.extend(placed(problems, |path| places.find(path).map_or(start, |found| found.mark)));
    found.sort_by_key(|one| (one.line, one.column));
    match backends {
        Some(backends) if found.is_empty() => Ok(backends),
        _ => Err(found),
    }
}

static NODE: OnceLock<Node> = OnceLock::new();
const START: Mark = Mark { line: 1, column: 1, length: 1 };

fn placed(problems: Problems, place: impl Fn(&str) -> Mark) -> impl Iterator<Item = AnnotationProblem> {
    problems.into_vec().into_iter().map(move |problem| in_yaml(place(&problem.path), &problem.path, problem.message))
}

fn in_yaml(mark: Mark, path: &str, message: String) -> AnnotationProblem {
    let Mark { line, column, length: _ } = mark;
    AnnotationProblem { annotation: REACHABLE_BACKENDS, line, column, path: path.to_owned(), message }
}

fn unknown(field: &UnknownField) -> String {
    match field.near() {
        Some(near) => format!("unknown field; did you mean {near}?"),
        None => "unknown field".to_owned(),
    }
}
