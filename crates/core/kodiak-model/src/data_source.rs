//! Sources of bytes such as certificates and keys.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, FieldPath, Problems, words};

/// Bytes from a Secret, a file, base64 or plain text: exactly one of them. The legacy form.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_string: Option<String>,
}

/// Inline bytes may be a private key, so they are not printed.
impl fmt::Debug for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secret, file, inline: _, inline_string: _ } = self;
        f.debug_struct("DataSource").field("secret", secret).field("file", file).finish_non_exhaustive()
    }
}

impl DataSource {
    pub fn is_chosen(&self) -> bool {
        let Self { secret, file, inline, inline_string } = self;
        secret.is_some() || file.is_some() || inline.is_some() || inline_string.is_some()
    }
}

words! {
    pub enum SecureSourceType {
        File = "File",
        Secret = "Secret",
        EnvVar = "EnvVar",
        InsecureInline = "InsecureInline",
    }
}

/// Bytes, or their location: exactly the member that `type` names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct SecureDataSource {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub source_type: Option<Choice<SecureSourceType>>,
    /// A file that the control plane reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSource>,
    /// A variable in the environment of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_var: Option<EnvVarSource>,
    /// The bytes as text. Everyone who may read the resource sees them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_inline: Option<InlineSource>,
    /// A Secret of the same mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["path"]))]
pub struct FileSource {
    /// Absolute, and without `..`.
    pub path: String,
}

words! {
    pub enum SecretKind {
        Secret = "Secret",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct SecretRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Choice<SecretKind>>,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name"]))]
pub struct EnvVarSource {
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["value"]))]
pub struct InlineSource {
    pub value: String,
}

const MUST_BE_DEFINED: &str = "must be defined";

impl SecureDataSource {
    /// Validates only the member that `type` names.
    pub fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        match self.source_type.as_ref().and_then(Choice::known) {
            Some(SecureSourceType::File) => {
                check_member(self.file.as_ref(), &at.field("file"), problems, FileSource::check);
            }
            Some(SecureSourceType::EnvVar) => {
                check_member(self.env_var.as_ref(), &at.field("envVar"), problems, |source, at, problems| {
                    problems.require(!source.name.is_empty(), &at.field("name"), MUST_BE_DEFINED);
                });
            }
            Some(SecureSourceType::InsecureInline) => {
                let inline = self.insecure_inline.as_ref();
                check_member(inline, &at.field("insecureInline"), problems, |source, at, problems| {
                    problems.require(!source.value.is_empty(), &at.field("value"), MUST_BE_DEFINED);
                });
            }
            Some(SecureSourceType::Secret) => {
                check_member(self.secret_ref.as_ref(), &at.field("secretRef"), problems, SecretRef::check);
            }
            None => {
                let written = self.source_type.as_ref().map_or("", Choice::as_str);
                let message = format!("{written} must be one of: EnvVar, InsecureInline, File, Secret");
                problems.add(&at.field("type"), message);
            }
        }
    }
}

fn check_member<T>(
    member: Option<&T>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
    check: impl FnOnce(&T, &FieldPath<'_>, &mut Problems),
) {
    match member {
        Some(member) => check(member, at, problems),
        None => problems.add(at, MUST_BE_DEFINED),
    }
}

impl FileSource {
    fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { path } = self;
        let message = if path.is_empty() {
            MUST_BE_DEFINED.to_owned()
        } else if path.contains("..") {
            format!("file path contains directory traversal sequence: {path}")
        } else if !path.starts_with('/') {
            format!("file path must be absolute: {path}")
        } else {
            return;
        };
        problems.add(&at.field("path"), message);
    }
}

impl SecretRef {
    fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { kind, name } = self;
        if kind.as_ref().and_then(Choice::known).is_none() {
            let written = kind.as_ref().map_or("", Choice::as_str);
            problems.add(&at.field("kind"), format!("{written} must be one of: Secret"));
        }
        problems.require(!name.is_empty(), &at.field("name"), MUST_BE_DEFINED);
    }
}
