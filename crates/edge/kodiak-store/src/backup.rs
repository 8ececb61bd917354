//! Backup of a whole store as one stream of JSON lines, with a checksum at its end.
//!
//! ```text
//! {"kodiakBackup":1,"history":"…","revision":42,"floor":0,"created":"2026-01-02T03:04:05Z"}
//! {"record":{"kind":"Mesh","mesh":"","name":"default","spec":"{…}",…}}
//! {"deleted":{"revision":41,"kind":"Mesh","mesh":"","name":"old"}}
//! {"end":{"records":1,"deletions":1,"sealed":0,"checksum":"…"}}
//! ```
//!
//! Specs that are sealed in a back end are sealed here, with the same key, which is **not** part of the backup.

mod read;

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kodiak_model::ResourceKey;
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

pub(crate) use self::read::{Restorable, read};
use crate::{
    event::Head,
    record::Record,
    row::{Row, parts},
    seal::Sealer,
    state::State,
};

/// The only format version.
const FORMAT: u64 = 1;
/// Approximate size of a chunk; a record may be larger.
const CHUNK: usize = 64 << 10;

/// Stream of a backup, in chunks. Its content is fixed when it is created: later writes are not included.
pub struct Backup {
    lines: Box<dyn Iterator<Item = Line> + Send>,
    hash: Xxh3,
    totals: Totals,
    head: Option<Head>,
    ended: bool,
}

/// Contents of a backup, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub records: u64,
    /// Tombstones.
    pub deletions: u64,
    /// Records that cannot be read without the seal key.
    pub sealed: u64,
}

/// One line, without its line break.
pub(crate) enum Line {
    Record { text: String, sealed: bool },
    Deleted(String),
}

impl Line {
    pub(crate) fn record(row: &Row<'_>) -> Self {
        let Row { key: [kind, mesh, name], spec, status, labels, owner, .. } = row;
        let Row { version, status_version, revision, created, modified, .. } = row;
        let field = if spec.sealed { "sealed" } else { "spec" };
        let value =
            if spec.sealed { STANDARD.encode(&spec.bytes) } else { String::from_utf8_lossy(&spec.bytes).into() };
        let record = json!({
            "kind": kind, "mesh": mesh, "name": name, field: value, "status": status, "labels": labels, "owner": owner,
            "version": version, "statusVersion": status_version, "revision": revision,
            "created": created, "modified": modified,
        });
        Self::Record { text: json!({ "record": record }).to_string(), sealed: spec.sealed }
    }

    pub(crate) fn deleted(revision: u64, key: &ResourceKey) -> Self {
        let [kind, mesh, name] = parts(key);
        let deleted = json!({ "revision": revision, "kind": kind, "mesh": mesh, "name": name });
        Self::Deleted(json!({ "deleted": deleted }).to_string())
    }
}

impl Backup {
    pub(crate) fn of_state(state: &State, sealer: Arc<Sealer>) -> Self {
        let records: Vec<Arc<Record>> = state.records().cloned().collect();
        let tombstones: Vec<_> = state.tombstones().map(|(revision, key)| (revision, key.clone())).collect();
        let records = records.into_iter().map(move |record| Line::record(&Row::new(&record, &sealer)));
        let deleted = tombstones.into_iter().map(|(revision, key)| Line::deleted(revision, &key));
        Self::new(state.head(), records.chain(deleted))
    }

    pub(crate) fn new(head: Head, lines: impl Iterator<Item = Line> + Send + 'static) -> Self {
        let lines = Box::new(lines);
        Self { lines, hash: Xxh3::new(), totals: Totals::default(), head: Some(head), ended: false }
    }

    /// Counts of the chunks so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn next_line(&mut self) -> Option<String> {
        let text = match self.lines.next()? {
            Line::Record { text, sealed } => {
                self.totals.records += 1;
                self.totals.sealed += u64::from(sealed);
                text
            }
            Line::Deleted(text) => {
                self.totals.deletions += 1;
                text
            }
        };
        Some(text)
    }
}

fn first(Head { revision, floor, history, commit: _ }: Head) -> String {
    let (created, history) = (Timestamp::now().to_string(), history.to_string());
    json!({ "kodiakBackup": FORMAT, "history": history, "revision": revision, "floor": floor, "created": created })
        .to_string()
}

fn end(Totals { records, deletions, sealed }: Totals, hash: &Xxh3) -> Value {
    let checksum = format!("{:032x}", hash.digest128());
    json!({ "records": records, "deletions": deletions, "sealed": sealed, "checksum": checksum })
}

impl Iterator for Backup {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        while chunk.len() < CHUNK {
            let line = match self.head.take() {
                Some(head) => Some(first(head)),
                None => self.next_line(),
            };
            let Some(line) = line else {
                self.ended = true;
                chunk.extend_from_slice(json!({ "end": end(self.totals, &self.hash) }).to_string().as_bytes());
                chunk.push(b'\n');
                break;
            };
            self.hash.update(line.as_bytes());
            self.hash.update(b"\n");
            chunk.extend_from_slice(line.as_bytes());
            chunk.push(b'\n');
        }
        Some(chunk)
    }
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").field("totals", &self.totals).finish_non_exhaustive()
    }
}
