//! Configuration file with control planes, in the format of kumactl, so that an existing one can be used.
//!
//! Unknown fields are kept. The file holds tokens: it is readable by its owner only, and replaced atomically.

use std::path::Path;

use anyhow::Context as _;
use kodiak_client::LOCAL;
use kodiak_model::yaml;
use kodiak_terminal::usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::private_file;

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConfigFile {
    pub(crate) contexts: Vec<ConfigContext>,
    pub(crate) control_planes: Vec<ConfiguredControlPlane>,
    pub(crate) current_context: String,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// Control plane with its defaults.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConfigContext {
    pub(crate) name: String,
    pub(crate) control_plane: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) defaults: Option<ContextDefaults>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextDefaults {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) mesh: String,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConfiguredControlPlane {
    pub(crate) name: String,
    pub(crate) coordinates: Coordinates,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Coordinates {
    pub(crate) api_server: ApiServer,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ApiServer {
    pub(crate) url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) ca_cert_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) client_cert_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) client_key_file: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<Header>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) auth_type: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) auth_conf: Map<String, Value>,
    /// Of kumactl; read only to reject it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) skip_verify: bool,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl ApiServer {
    /// Whether it is the default control plane of this machine, without credentials.
    pub(crate) fn is_local(&self) -> bool {
        let Self { url, ca_cert_file, client_cert_file, client_key_file, headers, auth_type, .. } = self;
        let files = [ca_cert_file, client_cert_file, client_key_file];
        url.trim_end_matches('/') == LOCAL
            && files.iter().all(|file| file.is_empty())
            && headers.is_empty()
            && auth_type.is_empty()
    }
}

impl ConfigFile {
    /// Configuration without a file.
    pub(crate) fn first() -> Self {
        let mut config = Self::default();
        let local = ApiServer { url: LOCAL.to_owned(), ..ApiServer::default() };
        config.set("local", local);
        "local".clone_into(&mut config.current_context);
        config
    }

    /// Reads the file, or returns the default configuration if it does not exist.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)
                .map_err(|why| usage(format!("{} is not a configuration of control planes: {why}", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::first()),
            Err(error) => Err(usage(format!("cannot read the configuration {}: {error}", path.display()))),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut documents = yaml::parse(text).map_err(|error| error.to_string())?;
        if documents.len() > 1 {
            return Err("it holds more than one document".to_owned());
        }
        let Some(document) = documents.pop() else { return Ok(Self::first()) };
        serde_json::from_value(without_nulls(document.value)).map_err(|error| error.to_string())
    }

    pub(crate) fn to_yaml(&self) -> String {
        let value = serde_json::to_value(self).expect("a configuration is made of text, lists and maps");
        yaml::to_string(&value)
    }

    /// Replaces the file atomically, readable by its owner only.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        private_file::write(path, self.to_yaml().as_bytes())
            .with_context(|| format!("cannot write the configuration {}", path.display()))
    }

    pub(crate) fn context(&self, name: &str) -> Option<&ConfigContext> {
        self.contexts.iter().find(|context| context.name == name)
    }

    pub(crate) fn control_plane(&self, name: &str) -> Option<&ConfiguredControlPlane> {
        self.control_planes.iter().find(|control_plane| control_plane.name == name)
    }

    /// Adds a control plane with a context of its name, or replaces both.
    pub(crate) fn set(&mut self, name: &str, api_server: ApiServer) {
        let coordinates = Coordinates { api_server, other: Map::new() };
        match self.control_planes.iter_mut().find(|control_plane| control_plane.name == name) {
            Some(control_plane) => control_plane.coordinates = coordinates,
            None => self.control_planes.push(ConfiguredControlPlane {
                name: name.to_owned(),
                coordinates,
                other: Map::new(),
            }),
        }
        if self.context(name).is_none() {
            let context =
                ConfigContext { name: name.to_owned(), control_plane: name.to_owned(), ..ConfigContext::default() };
            self.contexts.push(context);
        }
    }

    /// Removes a control plane and its contexts.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.control_planes.len();
        self.control_planes.retain(|control_plane| control_plane.name != name);
        self.contexts.retain(|context| context.control_plane != name);
        if self.context(&self.current_context).is_none() {
            self.current_context.clear();
        }
        self.control_planes.len() < before
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const OF_KUMACTL: &str = "
contexts:
- controlPlane: local
  name: local
- controlPlane: prod
  defaults: { mesh: payments }
  name: prod
controlPlanes:
- coordinates:
    apiServer:
      url: http://localhost:5681
  name: local
- coordinates:
    apiServer:
      authConf: { token: secret-token }
      authType: tokens
      caCertFile: /etc/ca.pem
      headers:
      - { key: x-team, value: mesh }
      newer: { kept: true }
      url: https://cp.example.com:5682
  name: prod
currentContext: prod
";

    #[test]
    fn reads_a_file_of_kumactl_and_keeps_unknown_fields() {
        let config = ConfigFile::parse(OF_KUMACTL).ok().unwrap();
        assert_eq!(config.current_context, "prod");
        assert_eq!(config.context("prod").unwrap().defaults.as_ref().unwrap().mesh, "payments");
        expect![[r#"
            contexts:
            - name: local
              controlPlane: local
            - name: prod
              controlPlane: prod
              defaults:
                mesh: payments
            controlPlanes:
            - name: local
              coordinates:
                apiServer:
                  url: http://localhost:5681
            - name: prod
              coordinates:
                apiServer:
                  url: https://cp.example.com:5682
                  caCertFile: /etc/ca.pem
                  headers:
                  - key: x-team
                    value: mesh
                  authType: tokens
                  authConf:
                    token: secret-token
                  newer:
                    kept: true
            currentContext: prod
        "#]]
        .assert_eq(&config.to_yaml());
    }

    #[test]
    fn rejects_files_that_are_no_configuration() {
        for (text, why) in [("contexts: 5", "invalid type"), ("a: [", "line"), ("a: 1\n---\nb: 2", "more than one")] {
            let error = ConfigFile::parse(text).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(ConfigFile::parse("").ok().unwrap().current_context, "local");
        assert!(ConfigFile::parse("contexts: null").ok().unwrap().contexts.is_empty());
    }

    #[test]
    fn removes_contexts_with_their_control_plane() {
        let mut config = ConfigFile::parse(OF_KUMACTL).ok().unwrap();
        assert!(config.remove("prod"));
        assert!(!config.remove("prod"));
        assert_eq!((config.contexts.len(), config.current_context.as_str()), (1, ""));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config");
        ConfigFile::first().save(&path).unwrap();
        ConfigFile::first().save(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
        assert_eq!(ConfigFile::load(&path).unwrap().control_planes.len(), 1);
    }
}
