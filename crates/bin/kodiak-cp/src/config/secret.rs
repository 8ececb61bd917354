//! String that is masked in output.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Masked(String);

impl Masked {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Masked {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { "*****" })
    }
}

impl Serialize for Masked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { "*****" })
    }
}
