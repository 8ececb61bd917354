//! Random IDs of histories and commits.

use std::fmt;

use aws_lc_rs::rand;

/// 128 random bits; all zero before the first commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u128);

impl Id {
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).expect("the system has randomness");
        Self(u128::from_be_bytes(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// `None` unless there are 16 bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
