//! Encoding of the file's entries: each starts with a checksum of its key and its content.
//!
//! The encoding does not use redb's types, because redb panics on text that is not UTF-8, and a damaged entry must be
//! reported by name.

use kodiak_model::ResourceKey;
use xxhash_rust::xxh3::Xxh3;

use crate::{
    event::Head,
    id::Id,
    row::{Row, parts},
    seal::AtRest,
};

const CHECKSUM: usize = size_of::<u128>();

/// Why an entry cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("its checksum does not match its content")]
    Checksum,
    #[error("its checksum matches, but its content cannot be read")]
    Content,
}

/// Head of the store, with totals over the other tables: they detect an entry that is missing or was replaced by an
/// earlier version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) head: Head,
    pub(super) entries: u64,
    /// Sum of the checksums of all records and tombstones.
    pub(super) sum: u128,
}

impl Total {
    pub(super) fn add(&mut self, entry: &[u8]) {
        self.entries = self.entries.wrapping_add(1);
        self.sum = self.sum.wrapping_add(checksum_in(entry).unwrap_or_default());
    }

    pub(super) fn remove(&mut self, entry: &[u8]) {
        self.entries = self.entries.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum_in(entry).unwrap_or_default());
    }
}

/// Names contain no NUL (`decide::limits`), so it is unique for each resource.
pub(super) fn key_bytes(parts: [&str; 3]) -> Vec<u8> {
    parts.join("\0").into_bytes()
}

pub(super) fn key_parts(bytes: &[u8]) -> Option<[&str; 3]> {
    let mut parts = std::str::from_utf8(bytes).ok()?.split('\0');
    let key = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(key)
}

/// For display, whatever the bytes are.
pub(super) fn shown_key(bytes: &[u8]) -> String {
    match key_parts(bytes) {
        Some([kind, mesh, name]) => ResourceKey::in_mesh(kind, mesh, name).to_string(),
        None => String::from_utf8_lossy(bytes).replace('\0', "/"),
    }
}

pub(super) fn record(row: &Row<'_>) -> Vec<u8> {
    let Row { key, spec, status, labels, owner, version, status_version, revision, created, modified } = row;
    let mut body = Vec::with_capacity(128 + spec.bytes.len() + status.map_or(0, str::len) + labels.len());
    body.extend_from_slice(&[0; CHECKSUM]);
    for number in [*version, *status_version, *revision, created.cast_unsigned(), modified.cast_unsigned()] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.push(u8::from(spec.sealed));
    put_bytes(&mut body, Some(&spec.bytes));
    put_bytes(&mut body, status.map(str::as_bytes));
    put_bytes(&mut body, Some(labels.as_bytes()));
    put_bytes(&mut body, owner.map(key_bytes).as_deref());
    seal_with_checksum(&key_bytes(*key), body)
}

pub(super) fn read_record<'a>(key: &'a [u8], entry: &'a [u8]) -> Result<Row<'a>, Damage> {
    let mut rest = verify(key, entry)?;
    let rest = &mut rest;
    let (version, status_version, revision) = (number(rest)?, number(rest)?, number(rest)?);
    let (created, modified) = (number(rest)?.cast_signed(), number(rest)?.cast_signed());
    let sealed = take(rest, 1)? != [0];
    let spec = bytes(rest)?.ok_or(Damage::Content)?;
    let status = bytes(rest)?.map(text).transpose()?;
    let labels = text(bytes(rest)?.ok_or(Damage::Content)?)?;
    let owner = bytes(rest)?.map(|owner| key_parts(owner).ok_or(Damage::Content)).transpose()?;
    Ok(Row {
        key: key_parts(key).ok_or(Damage::Content)?,
        spec: AtRest { bytes: spec.into(), sealed },
        status,
        labels: labels.into(),
        owner,
        version,
        status_version,
        revision,
        created,
        modified,
    })
}

pub(super) fn tombstone(revision: u64, key: &ResourceKey) -> Vec<u8> {
    let mut body = vec![0; CHECKSUM];
    body.extend_from_slice(&key_bytes(parts(key)));
    seal_with_checksum(&revision.to_le_bytes(), body)
}

pub(super) fn read_tombstone(revision: u64, entry: &[u8]) -> Result<[&str; 3], Damage> {
    key_parts(verify(&revision.to_le_bytes(), entry)?).ok_or(Damage::Content)
}

pub(super) fn total(total: &Total) -> Vec<u8> {
    let Total { head: Head { revision, floor, history, commit }, entries, sum } = total;
    let mut body = vec![0; CHECKSUM];
    for number in [revision, floor, entries] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    for id in [history.to_bytes(), commit.to_bytes(), sum.to_be_bytes()] {
        body.extend_from_slice(&id);
    }
    seal_with_checksum(b"head", body)
}

pub(super) fn read_total(entry: &[u8]) -> Result<Total, Damage> {
    let mut rest = verify(b"head", entry)?;
    let rest = &mut rest;
    let (revision, floor, entries) = (number(rest)?, number(rest)?, number(rest)?);
    let mut id = || Id::from_bytes(take(rest, 16)?).ok_or(Damage::Content);
    let (history, commit, Id(sum)) = (id()?, id()?, id()?);
    Ok(Total { head: Head { revision, floor, history, commit }, entries, sum })
}

/// Writes the checksum into its reserved place.
fn seal_with_checksum(key: &[u8], mut entry: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(key, &entry[CHECKSUM..]);
    entry[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    entry
}

/// The content after the checksum, if that matches.
fn verify<'a>(key: &[u8], entry: &'a [u8]) -> Result<&'a [u8], Damage> {
    let found = checksum_in(entry).ok_or(Damage::Checksum)?;
    let body = &entry[CHECKSUM..];
    if found == checksum(key, body) { Ok(body) } else { Err(Damage::Checksum) }
}

fn checksum_in(entry: &[u8]) -> Option<u128> {
    entry.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
}

/// The length detects a byte that moves between key and content.
fn checksum(key: &[u8], body: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(key);
    hash.update(body);
    hash.digest128()
}

fn put_bytes(body: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let len = bytes.map_or(u32::MAX, |bytes| u32::try_from(bytes.len()).expect("decide::limits keeps texts far below"));
    body.extend_from_slice(&len.to_le_bytes());
    body.extend_from_slice(bytes.unwrap_or_default());
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Damage> {
    let len = take(rest, 4)?.first_chunk().map(|len| u32::from_le_bytes(*len)).ok_or(Damage::Content)?;
    if len == u32::MAX { Ok(None) } else { take(rest, len as usize).map(Some) }
}

fn number(rest: &mut &[u8]) -> Result<u64, Damage> {
    take(rest, 8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Damage::Content)
}

fn text(bytes: &[u8]) -> Result<&str, Damage> {
    std::str::from_utf8(bytes).map_err(|_| Damage::Content)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Damage> {
    let (taken, left) = rest.split_at_checked(len).ok_or(Damage::Content)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row<'static> {
        Row {
            key: ["Mesh", "", "default"],
            spec: AtRest { bytes: b"{}"[..].into(), sealed: false },
            status: Some(r#"{"a":1}"#),
            labels: r#"{"b":"c"}"#.into(),
            owner: Some(["Mesh", "", "owner"]),
            version: 3,
            status_version: 2,
            revision: 77,
            created: -5,
            modified: 6,
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let (key, entry) = (key_bytes(row().key), record(&row()));
        assert_eq!(format!("{:?}", read_record(&key, &entry).unwrap()), format!("{:?}", row()));
        for at in 0..entry.len() * 8 {
            let mut damaged = entry.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert_eq!(read_record(&key, &damaged).unwrap_err(), Damage::Checksum);
        }
        assert_eq!(read_record(b"Mesh\0\0other", &entry).unwrap_err(), Damage::Checksum, "an entry of another key");
        for len in 0..entry.len() {
            assert_eq!(read_record(&key, &entry[..len]).unwrap_err(), Damage::Checksum);
        }
    }

    #[test]
    fn entries_with_a_valid_checksum_are_decoded_or_rejected() {
        for len in 0..200 {
            let entry = seal_with_checksum(b"k", vec![0xfe; CHECKSUM + len]);
            assert_eq!(read_record(b"k", &entry).unwrap_err(), Damage::Content);
        }
    }

    #[test]
    fn heads_round_trip() {
        let head = Head { revision: 1, floor: 2, history: Id(3), commit: Id(4) };
        let there = Total { head, entries: 5, sum: 6 };
        assert_eq!(read_total(&total(&there)), Ok(there));
    }
}
