//! Debug output of records: everything but the texts, which may be CA keys.

use std::fmt;

use super::{Record, Write};

/// Stands for a text that may be secret.
struct Hidden<'a>(&'a str);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, spec, status, labels, owner, version, status_version, revision, created, modified } = self;
        f.debug_struct("Record")
            .field("key", key)
            .field("spec", &Hidden(spec))
            .field("status", &status.as_deref().map(Hidden))
            .field("labels", labels)
            .field("owner", owner)
            .field("version", version)
            .field("status_version", status_version)
            .field("revision", revision)
            .field("created", created)
            .field("modified", modified)
            .finish()
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { key, spec, labels, owner, expect } => f
                .debug_struct("Put")
                .field("key", key)
                .field("spec", &Hidden(spec))
                .field("labels", labels)
                .field("owner", owner)
                .field("expect", expect)
                .finish(),
            Self::PutStatus { key, status, expect } => f
                .debug_struct("PutStatus")
                .field("key", key)
                .field("status", &Hidden(status))
                .field("expect", expect)
                .finish(),
            Self::Delete { key, expect } => f.debug_struct("Delete").field("key", key).field("expect", expect).finish(),
            Self::Require { key, expect } => {
                f.debug_struct("Require").field("key", key).field("expect", expect).finish()
            }
            Self::RequireStatus { key, expect } => {
                f.debug_struct("RequireStatus").field("key", key).field("expect", expect).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kodiak_model::ResourceKey;

    use crate::record::{Expect, Transaction, Write};

    #[test]
    fn debug_output_hides_texts() {
        let key = ResourceKey::global("Secret", "ca");
        let spec = r#"{"data":"swordfish"}"#;
        let put =
            Write::Put { key: key.clone(), spec: spec.into(), labels: [].into(), owner: None, expect: Expect::Any };
        let status = Write::PutStatus { key, status: spec.into(), expect: Expect::Any };
        let shown = format!("{:?}", Transaction(vec![put, status]));
        assert!(shown.contains("<20 bytes>") && !shown.contains("swordfish"), "{shown}");
    }
}
