//! Limits of sizes and characters that every back end supports.
//!
//! One commit carries the writes of many callers, so a value that a back end would reject must never reach it: it would
//! fail all of them.

use kodiak_model::ResourceKey;

use crate::{error::StoreError, record::Write};

/// PostgreSQL indexes at most 2,704 bytes, and a key has three parts.
const MAX_PART: usize = 512;
/// More than Kubernetes accepts. PostgreSQL accepts 1 GiB in one statement, so a few hundred of these at once.
const MAX_TEXT: usize = 4 << 20;

pub(crate) fn check(write: &Write) -> Result<(), StoreError> {
    let (key, problem) = match write {
        Write::Put { key, spec, labels, owner, .. } => {
            let labels = labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            let problem = check_key(key)
                .or_else(|| check_text(spec))
                .or_else(|| owner.as_ref().and_then(check_key))
                .or_else(|| (labels > MAX_TEXT).then_some("its labels are too large"));
            (key, problem)
        }
        Write::PutStatus { key, status, .. } => (key, check_key(key).or_else(|| check_text(status))),
        Write::Delete { key, .. } | Write::Require { key, .. } | Write::RequireStatus { key, .. } => {
            (key, check_key(key))
        }
    };
    problem.map_or(Ok(()), |problem| Err(StoreError::Invalid { key: key.clone(), problem }))
}

fn check_key(key: &ResourceKey) -> Option<&'static str> {
    let ResourceKey { kind, mesh, name } = key;
    let parts = [kind, mesh, name];
    if kind.is_empty() || name.is_empty() {
        Some("its kind or its name is empty")
    } else if parts.iter().any(|part| part.len() > MAX_PART) {
        Some("its name is too long")
    } else if parts.iter().any(|part| part.contains('\0')) {
        Some("its name contains a NUL character")
    } else {
        None
    }
}

fn check_text(text: &str) -> Option<&'static str> {
    if text.len() > MAX_TEXT {
        Some("it is too large")
    } else if text.contains('\0') {
        Some("it contains a NUL character, which is not JSON")
    } else {
        None
    }
}
