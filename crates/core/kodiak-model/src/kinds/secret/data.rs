//! Bytes of a Secret.

use std::{borrow::Cow, fmt};

use base64::{
    DecodeError, Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{FieldPath, Problems};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const ANY_PADDING: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const ANY_PADDING_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Base64 text. Both alphabets, line breaks and missing padding are accepted; the standard form is stored. Never
/// printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SecretData(String);

impl SecretData {
    pub fn of(bytes: &[u8]) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// Fails only for text that validation rejects.
    pub fn bytes(&self) -> Result<Vec<u8>, DecodeError> {
        STANDARD.decode(&self.0)
    }

    pub(in crate::kinds) fn check(&self, problems: &mut Problems) {
        if self.bytes().is_err() {
            problems.add(&FieldPath::ROOT.field("data"), "is not base64; write the output of `base64 < file` here");
        }
    }
}

impl<'de> Deserialize<'de> for SecretData {
    /// Invalid base64 is kept as it is, for validation to report.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        let bytes = ANY_PADDING.decode(&joined).or_else(|_| ANY_PADDING_URL.decode(&joined));
        Ok(bytes.map_or_else(|_| Self(text.into_owned()), |bytes| Self::of(&bytes)))
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl JsonSchema for SecretData {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SecretData".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "byte" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::secret::Secret;

    fn read(text: &str) -> SecretData {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn every_form_of_base64_is_accepted_and_stored_as_one() {
        for text in ["+/+/dGVzdA==", "-_-_dGVzdA==", "+/+/dGVzdA", "+/+/\ndGVz\r\ndA==\n"] {
            let data = read(text);
            assert_eq!(data.bytes().unwrap(), b"\xfb\xff\xbftest", "{text:?}");
            assert_eq!(serde_json::to_value(&data).unwrap(), "+/+/dGVzdA==");
        }
        assert!(read("not base64!").bytes().is_err());
    }

    #[test]
    fn debug_output_hides_secret_data() {
        let secret = Secret { data: SecretData::of(b"test") };
        assert_eq!(format!("{secret:?}"), "Secret { data: *** }");
    }
}
