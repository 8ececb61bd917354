//! An enum value, or the invalid text in its place.
//!
//! An invalid value must not stop deserialization, or only the first problem of a resource would be reported.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

use crate::{FieldPath, Problems};

/// A closed set of enum values. Use [`words!`](crate::words) to declare one.
pub trait Word: Copy + PartialEq + fmt::Debug + 'static {
    const ALL: &'static [(&'static str, Self)];

    fn text(self) -> &'static str {
        Self::ALL.iter().find(|(_, word)| *word == self).map_or("", |(text, _)| text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<W> {
    Known(W),
    Unknown(String),
}

impl<W: Word> Choice<W> {
    pub fn parse(text: &str) -> Self {
        match W::ALL.iter().find(|(known, _)| *known == text) {
            Some((_, word)) => Self::Known(*word),
            None => Self::Unknown(text.to_owned()),
        }
    }

    pub fn known(&self) -> Option<W> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Unknown(_) => None,
        }
    }

    pub fn is(&self, word: W) -> bool {
        self.known() == Some(word)
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.text(),
            Self::Unknown(text) => text,
        }
    }

    /// Reports `"mode" must be one of ["Strict", "Permissive"]` at `at.<field>` when the value is unknown.
    pub fn check(&self, at: &FieldPath<'_>, field: &str, problems: &mut Problems) -> Option<W> {
        if let Self::Unknown(_) = self {
            problems.add(&at.field(field), format!("{field:?} must be one of [{}]", quoted::<W>()));
        }
        self.known()
    }
}

/// `"Strict", "Permissive"`
pub fn quoted<W: Word>() -> String {
    let words: Vec<String> = W::ALL.iter().map(|(text, _)| format!("{text:?}")).collect();
    words.join(", ")
}

impl<W: Word> From<W> for Choice<W> {
    fn from(word: W) -> Self {
        Self::Known(word)
    }
}

impl<W: Word> fmt::Display for Choice<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<W: Word> Serialize for Choice<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, W: Word> Deserialize<'de> for Choice<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor(PhantomData))
    }
}

/// Accepts every scalar: a number in the place of an enum value is reported as an invalid value.
struct WordVisitor<W>(PhantomData<W>);

impl<W: Word> Visitor<'_> for WordVisitor<W> {
    type Value = Choice<W>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Choice<W>, E> {
        Ok(Choice::parse(text))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Choice<W>, E> {
        Ok(Choice::parse(&value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Choice<W>, E> {
        Ok(Choice::parse(&value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Choice<W>, E> {
        Ok(Choice::parse(&value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Choice<W>, E> {
        Ok(Choice::parse(&value.to_string()))
    }
}

impl<W: Word> JsonSchema for Choice<W> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Choice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = W::ALL.iter().map(|(text, _)| *text).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

/// Declares an enum by its JSON values: `words! { pub enum Mode { Strict = "Strict", Permissive = "Permissive" } }`.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $crate::Word for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),+];
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Choice;
    use crate::ProxyType;

    #[test]
    fn invalid_enum_values_are_kept() {
        let read = |value| serde_json::from_value::<Choice<ProxyType>>(value).map_err(|error| error.to_string());
        assert_eq!(read(json!("Sidecar")), Ok(ProxyType::Sidecar.into()));
        for (written, kept) in
            [(json!("sidecar"), "sidecar"), (json!(1), "1"), (json!(-1), "-1"), (json!(true), "true")]
        {
            assert_eq!(read(written), Ok(Choice::Unknown(kept.to_owned())));
        }
        assert!(read(json!(["Sidecar"])).is_err());
    }
}
