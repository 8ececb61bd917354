//! Specs with a checksum, and random numbers.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
};

use serde_json::{Value, json};

/// A spec with a number, padding, and the checksum of both.
pub(crate) fn spec(name: &str, n: u64, weight: u64) -> String {
    let text = "x".repeat(usize::try_from(weight).unwrap());
    json!({ "n": n, "text": text, "sum": sum(name, n, &text) }).to_string()
}

/// The number in an intact spec.
pub(crate) fn open(name: &str, spec: &str) -> Option<u64> {
    let spec: Value = serde_json::from_str(spec).ok()?;
    let n = spec["n"].as_u64()?;
    (spec["sum"] == sum(name, n, spec["text"].as_str()?)).then_some(n)
}

/// FNV-1a.
fn sum(name: &str, n: u64, text: &str) -> u64 {
    let bytes = name.bytes().chain(n.to_be_bytes()).chain(text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Xorshift, seeded by the system.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(RandomState::new().build_hasher().finish() | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
