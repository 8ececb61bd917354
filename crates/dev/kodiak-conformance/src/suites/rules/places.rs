//! Names and labels of a resource, where it was created and where it was synced to.

use std::fmt;

use kodiak_model::{Labels, labels};

use super::{Document, show::MetaForm};
use crate::synced_name::synced_name;

const NAMESPACE: &str = "ns-k8s";
const SYSTEM_NAMESPACE: &str = "kuma-system";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Environment {
    Universal,
    Kubernetes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Side {
    /// `global` or `zone`.
    level: &'static str,
    environment: Environment,
}

/// Where a resource was created and, if different, where it was synced to.
pub(super) struct Place {
    written: Side,
    copied: Option<Side>,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = if self.environment == Environment::Kubernetes { "k8s" } else { "uni" };
        write!(f, "{}-{environment}", self.level)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.copied {
            Some(copied) => write!(f, "{}-2-{copied}", self.written),
            None => write!(f, "{}", self.written),
        }
    }
}

/// All combinations, except from one global control plane to another.
pub(super) fn all() -> Vec<(Place, MetaForm)> {
    let environments = [Environment::Universal, Environment::Kubernetes];
    let sides = ["global", "zone"].iter().flat_map(|level| environments.map(|environment| Side { level, environment }));
    let sides: Vec<Side> = sides.collect();
    let mut places = Vec::new();
    for written in &sides {
        let copied = sides.iter().filter(|copied| written.level == "zone" || copied.level == "zone");
        for copied in copied.copied().map(Some).chain([None]) {
            let form = match copied.unwrap_or(*written).environment {
                Environment::Universal => MetaForm::Universal,
                Environment::Kubernetes => MetaForm::Kubernetes,
            };
            places.push((Place { written: *written, copied }, form));
        }
    }
    places
}

impl Place {
    /// Meshes are the same everywhere.
    pub(super) fn put(&self, document: &Document) -> Document {
        if document.mesh.is_empty() {
            return document.clone();
        }
        let labels = self.labels(document);
        let name = match self.copied {
            None if self.written.environment == Environment::Kubernetes => format!("{}.{NAMESPACE}", document.name),
            None => document.name.clone(),
            Some(copied) => {
                let name = synced_name(&document.mesh, labels::display_name(&labels, &document.name), &labels);
                match copied.environment {
                    Environment::Universal => name,
                    Environment::Kubernetes => format!("{name}.{SYSTEM_NAMESPACE}"),
                }
            }
        };
        Document { name, labels, ..document.clone() }
    }

    /// Labels in the document override derived ones.
    fn labels(&self, document: &Document) -> Labels {
        let mut labels = Labels::new();
        let mut set = |key: &str, value: &str| _ = labels.insert(key.to_owned(), value.to_owned());
        set(labels::ORIGIN, self.written.level);
        set(labels::DISPLAY_NAME, &document.name);
        if self.written.level == "zone" {
            set(labels::ZONE, &self.written.to_string());
        }
        if self.written.environment == Environment::Kubernetes {
            set(labels::NAMESPACE, NAMESPACE);
            set(labels::MESH, &document.mesh);
        }
        labels.extend(document.labels.clone());
        labels
    }
}
