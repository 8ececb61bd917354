//! Reads a backup, and uses nothing of it before its checksum was verified.

use std::io::{BufRead, Read};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kodiak_model::ResourceKey;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::{FORMAT, Totals};
use crate::{error::StoreError, event::Head, id::Id, row::Row, seal::AtRest};

/// A line holds one record: a spec and a status of 4 MiB each, escaped.
const MAX_LINE: u64 = 64 << 20;

/// A verified backup.
pub(crate) struct Restorable {
    pub(crate) records: Vec<Owned>,
    pub(crate) deletions: Vec<(u64, ResourceKey)>,
    /// Head of the store that was backed up.
    pub(crate) head: Head,
    pub(crate) totals: Totals,
}

/// A row that owns its texts.
pub(crate) struct Owned {
    key: [String; 3],
    spec: Vec<u8>,
    sealed: bool,
    status: Option<String>,
    labels: String,
    owner: Option<[String; 3]>,
    numbers: [u64; 3],
    times: [i64; 2],
}

impl Owned {
    pub(crate) fn row(&self) -> Row<'_> {
        let [version, status_version, revision] = self.numbers;
        let [created, modified] = self.times;
        Row {
            key: std::array::from_fn(|part| self.key[part].as_str()),
            spec: AtRest { bytes: (&self.spec[..]).into(), sealed: self.sealed },
            status: self.status.as_deref(),
            labels: self.labels.as_str().into(),
            owner: self.owner.as_ref().map(|owner| std::array::from_fn(|part| owner[part].as_str())),
            version,
            status_version,
            revision,
            created,
            modified,
        }
    }
}

pub(crate) fn read(mut input: impl BufRead) -> Result<Restorable, StoreError> {
    let refuse = |line: u64, problem: &str| StoreError::Backup { line, problem: problem.to_owned() };
    let mut hash = Xxh3::new();
    let mut text = Vec::new();
    let (mut number, mut head, mut end) = (0, None, None);
    let (mut records, mut deletions, mut totals) = (Vec::new(), Vec::new(), Totals::default());
    loop {
        text.clear();
        number += 1;
        let read = Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut text);
        let read = read.map_err(|error| refuse(number, &error.to_string()))?;
        if read == 0 {
            break;
        }
        if end.is_some() {
            return Err(refuse(number, "there is data after its end"));
        }
        if text.last() != Some(&b'\n') {
            return Err(refuse(number, "it ends in the middle of a line: the backup is truncated"));
        }
        let line: Value = serde_json::from_slice(&text).map_err(|error| refuse(number, &error.to_string()))?;
        if let Some(last) = line.get("end") {
            end = Some(last.clone());
            continue;
        }
        hash.update(&text);
        let understood = if head.is_none() {
            head = read_head(&line);
            head.is_some()
        } else if let Some(record) = line.get("record") {
            let owned = read_record(record);
            totals.records += 1;
            totals.sealed += u64::from(owned.as_ref().is_some_and(|owned| owned.sealed));
            let understood = owned.is_some();
            records.extend(owned);
            understood
        } else {
            let deletion = line.get("deleted").and_then(read_deletion);
            totals.deletions += 1;
            let understood = deletion.is_some();
            deletions.extend(deletion);
            understood
        };
        if !understood {
            let problem = if number == 1 { "it is not a backup in a supported format" } else { "it is not a record" };
            return Err(refuse(number, problem));
        }
    }
    let Some(end) = end else { return Err(refuse(number, "its end is missing: the backup is truncated")) };
    if end != super::end(totals, &hash) {
        return Err(refuse(number - 1, "its checksum does not match its content: the backup is damaged"));
    }
    let head = head.ok_or_else(|| refuse(1, "it is empty"))?;
    Ok(Restorable { records, deletions, head, totals })
}

fn read_head(line: &Value) -> Option<Head> {
    (line["kodiakBackup"] == FORMAT).then_some(())?;
    Some(Head {
        revision: line["revision"].as_u64()?,
        floor: line["floor"].as_u64()?,
        history: Id::from_hex(line["history"].as_str()?)?,
        commit: Id::default(),
    })
}

fn read_record(record: &Value) -> Option<Owned> {
    let text = |field: &str| record[field].as_str().map(str::to_owned);
    let sealed = record.get("sealed").is_some();
    let spec = if sealed {
        STANDARD.decode(record["sealed"].as_str()?).ok()?
    } else {
        record["spec"].as_str()?.as_bytes().to_vec()
    };
    let owner = match &record["owner"] {
        Value::Null => None,
        owner => Some([text_at(owner, 0)?, text_at(owner, 1)?, text_at(owner, 2)?]),
    };
    let number = |field: &str| record[field].as_u64();
    Some(Owned {
        key: [text("kind")?, text("mesh")?, text("name")?],
        spec,
        sealed,
        status: if record["status"].is_null() { None } else { Some(text("status")?) },
        labels: text("labels")?,
        owner,
        numbers: [number("version")?, number("statusVersion")?, number("revision")?],
        times: [record["created"].as_i64()?, record["modified"].as_i64()?],
    })
}

fn text_at(list: &Value, at: usize) -> Option<String> {
    list[at].as_str().map(str::to_owned)
}

fn read_deletion(deleted: &Value) -> Option<(u64, ResourceKey)> {
    let text = |field: &str| deleted[field].as_str();
    Some((deleted["revision"].as_u64()?, ResourceKey::in_mesh(text("kind")?, text("mesh")?, text("name")?)))
}
