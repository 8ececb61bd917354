//! A record as a row of a back end: plain columns, sealed where configured, times as microseconds.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use kodiak_model::ResourceKey;

use crate::{
    error::StoreError,
    names::Names,
    record::Record,
    seal::{AtRest, Sealer},
};

/// Borrowed from a record when written, from a row when read.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) key: [&'a str; 3],
    pub(crate) spec: AtRest<'a>,
    pub(crate) status: Option<&'a str>,
    pub(crate) labels: Cow<'a, str>,
    pub(crate) owner: Option<[&'a str; 3]>,
    pub(crate) version: u64,
    pub(crate) status_version: u64,
    pub(crate) revision: u64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
}

/// Rounded to microseconds, the precision of back ends: a reopened store equals the one before.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("it just was a timestamp")
}

pub(crate) fn parts(ResourceKey { kind, mesh, name }: &ResourceKey) -> [&str; 3] {
    [kind, mesh, name]
}

impl<'a> Row<'a> {
    pub(crate) fn new(record: &'a Record, sealer: &Sealer) -> Self {
        let Record { key, spec, status, labels, owner, version, status_version, revision, created, modified } = record;
        Self {
            key: parts(key),
            spec: sealer.seal(key, spec),
            status: status.as_deref(),
            labels: serde_json::to_string(labels).expect("a map of texts is JSON").into(),
            owner: owner.as_ref().map(parts),
            version: *version,
            status_version: *status_version,
            revision: *revision,
            created: created.as_microsecond(),
            modified: modified.as_microsecond(),
        }
    }
}

/// Decodes rows, and interns their names.
pub(crate) struct Reader<'a> {
    pub(crate) sealer: &'a Sealer,
    pub(crate) names: &'a mut Names,
}

impl Reader<'_> {
    pub(crate) fn record(&mut self, row: Row<'_>) -> Result<Record, StoreError> {
        let Row { key, spec, status, labels, owner, version, status_version, revision, created, modified } = row;
        let key = self.names.key(key);
        let time = |micros| Timestamp::from_microsecond(micros).map_err(|error| StoreError::corrupt(&key, error));
        let (created, modified) = (time(created)?, time(modified)?);
        let labels = serde_json::from_str(&labels).map_err(|error| StoreError::corrupt(&key, error))?;
        let spec = self.sealer.unseal(&key, spec)?;
        let spec = std::str::from_utf8(&spec).map_err(|error| StoreError::corrupt(&key, error))?;
        Ok(Record {
            spec: spec.into(),
            status: status.map(Into::into),
            labels: Arc::new(labels),
            owner: owner.map(|owner| self.names.owner(owner)),
            version,
            status_version,
            revision,
            created,
            modified,
            key,
        })
    }
}
