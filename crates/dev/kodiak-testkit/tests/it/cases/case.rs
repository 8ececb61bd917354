//! One case: a mesh, and the proxy whose configuration is shown.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use kodiak_engine::{EngineChange, EngineSettings, offline, redacted};
use kodiak_model::{ProxyKey, yaml};
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde::Deserialize;
use serde_json::Value;

use super::changed;
use kodiak_oracle::documents;

const MESH: &str = "default";

/// The first document of a case.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
    /// Description in one line.
    about: String,
    /// The Dataplane whose proxy is shown.
    proxy: String,
    /// Whether its connections are redirected.
    #[serde(default)]
    redirected: bool,
    /// Features of the sidecar process.
    #[serde(default)]
    features: BTreeSet<String>,
    /// Resources to show: all of a type (`clusters`), or one by its name.
    show: Vec<String>,
    /// Shows them as a whole, not the difference that policies and destinations make.
    #[serde(default)]
    whole: bool,
}

#[derive(Deserialize)]
enum Kind {
    Case,
}

pub(super) struct Case {
    head: Head,
    changes: Vec<EngineChange>,
}

impl Case {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let documents = yaml::parse(&text).map_err(|error| error.to_string())?;
        let mut documents = documents.into_iter().map(|document| document.value);
        let head = documents.next().ok_or("there is no document `type: Case`")?;
        let head: Head = serde_json::from_value(head).map_err(|error| format!("the first document: {error}"))?;
        let Kind::Case = head.kind;
        if head.about.is_empty() {
            return Err("`about` says nothing".to_owned());
        }
        let changes = documents.map(documents::change).collect::<Result<_, _>>()?;
        Ok(Self { head, changes })
    }

    /// The whole configuration, with all policies.
    pub(super) fn config(&self) -> Result<Arc<Snapshot>, String> {
        self.render(|_| true)
    }

    /// Changes that policies and destinations make to the shown resources.
    pub(super) fn changed(&self) -> Result<String, String> {
        let is_tried =
            |change: &EngineChange| matches!(change, EngineChange::Policy { .. } | EngineChange::Destination { .. });
        let (before, after) = (self.render(|change| !is_tried(change))?, self.config()?);
        let read = |snapshot| redacted::config(snapshot).map_err(|error| error.to_string());
        let (before, after) = (if self.head.whole { Value::Null } else { read(&before)? }, read(&after)?);
        let mut types = serde_json::Map::new();
        for type_url in TypeUrl::ALL {
            let shown = |name: &str| self.head.show.iter().any(|show| show == name || show == word(type_url));
            let of_type = changed::resources(&before[type_url.as_str()], &after[type_url.as_str()], shown);
            if !of_type.is_empty() {
                types.insert(word(type_url).to_owned(), of_type.into());
            }
        }
        Ok(yaml::to_string(&Value::Object(types)))
    }

    fn render(&self, wanted: impl Fn(&EngineChange) -> bool) -> Result<Arc<Snapshot>, String> {
        let settings = EngineSettings { zone: documents::ZONE.into(), ..EngineSettings::default() };
        let changes = self.changes.iter().filter(|change| wanted(change)).cloned();
        let features = self.head.features.clone();
        let metadata = NodeMetadata { features, ..documents::metadata(self.head.redirected) };
        let config = offline::config(settings, changes, &ProxyKey::new(MESH, &self.head.proxy), Arc::new(metadata));
        config.map_err(|faults| faults.join("; "))
    }
}

/// Plural name of a resource type.
fn word(type_url: TypeUrl) -> &'static str {
    match type_url {
        TypeUrl::Cluster => "clusters",
        TypeUrl::Endpoint => "endpoints",
        TypeUrl::Listener => "listeners",
        TypeUrl::Route => "routes",
        TypeUrl::Secret => "secrets",
    }
}
