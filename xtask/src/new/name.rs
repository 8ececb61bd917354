//! The name of a kind, and the names derived from it.

use anyhow::{Result, bail};

/// `MeshHTTPRoute`: letters and digits, words start with a capital.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindName(String);

impl KindName {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_uppercase());
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric());
        let has_small = text.contains(|c: char| c.is_ascii_lowercase());
        if starts_well && plain && has_small {
            return Ok(Self(text.to_owned()));
        }
        let meant = camel_case(text);
        if meant.starts_with(|c: char| c.is_ascii_uppercase()) && meant != text {
            bail!("{text:?} is not CamelCase; did you mean {meant}?");
        }
        bail!("{text:?} is not CamelCase; write a name such as MeshTimeout");
    }

    /// Names of policies start with `Mesh`.
    pub(super) fn parse_policy(text: &str) -> Result<Self> {
        let name = Self::parse(text)?;
        if !name.0.starts_with("Mesh") || name.0 == "Mesh" {
            bail!("policies are called Mesh<Something>; did you mean Mesh{}?", name.0.trim_start_matches("Mesh"));
        }
        Ok(name)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder and module: `mesh_http_route`.
    pub(super) fn snake_case(&self) -> String {
        self.words().join("_")
    }

    /// The segment of its URLs: `meshhttproutes`.
    pub(super) fn plural_path(&self) -> String {
        let name = self.0.to_ascii_lowercase();
        match name.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
            _ if ["s", "x", "ch", "sh"].iter().any(|end| name.ends_with(end)) => name + "es",
            _ => name + "s",
        }
    }

    /// The first letters of its words: `mhr`.
    pub(super) fn initials(&self) -> String {
        self.words().iter().filter_map(|word| word.chars().next()).collect()
    }

    /// Its words in lower case; consecutive capitals are one word.
    fn words(&self) -> Vec<String> {
        let letters: Vec<char> = self.0.chars().collect();
        let mut words: Vec<String> = Vec::new();
        for (n, letter) in letters.iter().enumerate() {
            let before = n.checked_sub(1).and_then(|n| letters.get(n));
            let small_follows = letters.get(n + 1).is_some_and(char::is_ascii_lowercase);
            let starts =
                letter.is_ascii_uppercase() && (before.is_some_and(|c| !c.is_ascii_uppercase()) || small_follows);
            match words.last_mut() {
                Some(word) if !starts => word.push(letter.to_ascii_lowercase()),
                _ => words.push(letter.to_ascii_lowercase().to_string()),
            }
        }
        words
    }
}

/// CamelCase form of `mesh-foo`, `mesh_foo` or `meshFoo`.
fn camel_case(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter_map(|word| Some((word.get(..1)?, word.get(1..)?)))
        .map(|(first, rest)| first.to_ascii_uppercase() + rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_all_names() {
        for (name, snake, plural, initials) in [
            ("MeshTimeout", "mesh_timeout", "meshtimeouts", "mt"),
            ("MeshHTTPRoute", "mesh_http_route", "meshhttproutes", "mhr"),
            ("MeshTLS", "mesh_tls", "meshtlses", "mt"),
            ("MeshIdentity", "mesh_identity", "meshidentities", "mi"),
            ("MeshProxyPatch", "mesh_proxy_patch", "meshproxypatches", "mpp"),
            ("Gateway", "gateway", "gateways", "g"),
            ("Http2Route", "http2_route", "http2routes", "hr"),
        ] {
            let name = KindName::parse(name).unwrap();
            assert_eq!(name.snake_case(), snake);
            assert_eq!(name.plural_path(), plural);
            assert_eq!(name.initials(), initials);
        }
    }

    #[test]
    fn rejects_other_spellings_with_a_suggestion() {
        let refusal = |text: &str| KindName::parse(text).unwrap_err().to_string();
        assert_eq!(refusal("mesh-foo"), "\"mesh-foo\" is not CamelCase; did you mean MeshFoo?");
        assert_eq!(refusal("mesh_foo"), "\"mesh_foo\" is not CamelCase; did you mean MeshFoo?");
        assert_eq!(refusal("meshFoo"), "\"meshFoo\" is not CamelCase; did you mean MeshFoo?");
        for text in ["", "FOO", "1Foo", "Ünder", "../Foo"] {
            assert!(refusal(text).contains("is not CamelCase"), "{text}");
        }
    }

    #[test]
    fn policy_names_start_with_mesh() {
        let error = KindName::parse_policy("Foo").unwrap_err();
        assert_eq!(error.to_string(), "policies are called Mesh<Something>; did you mean MeshFoo?");
        assert!(KindName::parse_policy("Mesh").is_err());
        assert!(KindName::parse_policy("MeshFoo").is_ok());
    }
}
