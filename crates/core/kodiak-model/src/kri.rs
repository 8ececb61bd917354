//! KRI, the identifier of a resource across zones: `kri_<kind>_<mesh>_<zone>_<namespace>_<name>_<section>`.

use std::fmt;

use crate::{Kind, Kinds, labels, labels::Labels};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kri {
    pub short: &'static str,
    pub mesh: String,
    pub zone: String,
    pub namespace: String,
    pub name: String,
    pub section: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAKri(String);

impl fmt::Display for NotAKri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAKri {}

impl Kri {
    /// `None` for kinds without a short name.
    pub fn of(kind: &Kind, mesh: &str, name: &str, labels: &Labels) -> Option<Self> {
        let label = |key| labels.get(key).cloned().unwrap_or_default();
        Some(Self {
            short: kind.short?,
            mesh: mesh.to_owned(),
            zone: label(labels::ZONE),
            namespace: label(labels::NAMESPACE),
            name: labels::display_name(labels, name).to_owned(),
            section: String::new(),
        })
    }

    pub fn parse(kinds: &Kinds, text: &str) -> Result<Self, NotAKri> {
        let parts: Vec<&str> = text.split('_').collect();
        let [prefix, short, mesh, zone, namespace, name, section @ ..] = parts.as_slice() else {
            return Err(NotAKri(format!("invalid identifier string: {text:?}")));
        };
        if section.is_empty() {
            return Err(NotAKri(format!("invalid identifier string: {text:?}")));
        }
        if *prefix != "kri" {
            return Err(NotAKri(format!("identifier must start with 'kri': {text:?}")));
        }
        let kind = kinds.by_short(short);
        let Some(short) = kind.and_then(|kind| kind.short) else {
            return Err(NotAKri(format!("unknown short name of resource type: {short:?}")));
        };
        Ok(Self {
            short,
            mesh: (*mesh).to_owned(),
            zone: (*zone).to_owned(),
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            section: section.concat(),
        })
    }
}

impl fmt::Display for Kri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { short, mesh, zone, namespace, name, section } = self;
        write!(f, "kri_{short}_{mesh}_{zone}_{namespace}_{name}_{section}")
    }
}
