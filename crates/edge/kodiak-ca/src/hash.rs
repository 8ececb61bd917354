//! Hashes that are the same on every machine and in every build.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Of some words. No two lists of words are the same to it.
pub(crate) fn of_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    let mut hash = Xxh3Default::new();
    for word in words {
        hash.update(&(word.len() as u64).to_le_bytes());
        hash.update(word);
    }
    hash.digest128()
}

/// A place below `end`, spread evenly over texts.
pub(crate) fn place(text: &str, end: u64) -> u64 {
    xxh3_64(text.as_bytes()) % end.max(1)
}
