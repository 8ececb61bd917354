//! SPIFFE IDs: `spiffe://trust.domain/path`.

use std::fmt;

/// The path is empty or starts with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiffeId<'a> {
    pub trust_domain: &'a str,
    pub path: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotASpiffeId {
    Empty,
    Scheme,
    MissingTrustDomain,
    TrustDomainCharacter,
    PathCharacter,
    EmptySegment,
    DotSegment,
    TrailingSlash,
}

impl fmt::Display for NotASpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "cannot be empty",
            Self::Scheme => "scheme is missing or invalid",
            Self::MissingTrustDomain => "trust domain is missing",
            Self::TrustDomainCharacter => {
                "trust domain characters are limited to lowercase letters, numbers, dots, dashes, and underscores"
            }
            Self::PathCharacter => {
                "path segment characters are limited to letters, numbers, dots, dashes, and underscores"
            }
            Self::EmptySegment => "path cannot contain empty segments",
            Self::DotSegment => "path cannot contain dot segments",
            Self::TrailingSlash => "path cannot have a trailing slash",
        })
    }
}

impl std::error::Error for NotASpiffeId {}

/// Start of the SPIFFE IDs below one, which are those with more segments of the path.
pub fn below(id: &str) -> String {
    if id.ends_with('/') { id.to_owned() } else { format!("{id}/") }
}

/// Whether a SPIFFE ID is `prefix` or below it. `spiffe://td/ns/shop` is no prefix of `spiffe://td/ns/shopping`.
pub fn has_prefix(id: &str, prefix: &str) -> bool {
    id == prefix || id.starts_with(&below(prefix))
}

pub fn parse(text: &str) -> Result<SpiffeId<'_>, NotASpiffeId> {
    if text.is_empty() {
        return Err(NotASpiffeId::Empty);
    }
    let rest = text.strip_prefix("spiffe://").ok_or(NotASpiffeId::Scheme)?;
    let (trust_domain, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if trust_domain.is_empty() {
        return Err(NotASpiffeId::MissingTrustDomain);
    }
    if !trust_domain.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b)) {
        return Err(NotASpiffeId::TrustDomainCharacter);
    }
    check_path(path)?;
    Ok(SpiffeId { trust_domain, path })
}

fn check_path(path: &str) -> Result<(), NotASpiffeId> {
    let Some(segments) = path.strip_prefix('/') else { return Ok(()) };
    if path.ends_with('/') {
        return Err(NotASpiffeId::TrailingSlash);
    }
    for segment in segments.split('/') {
        match segment {
            "" => return Err(NotASpiffeId::EmptySegment),
            "." | ".." => return Err(NotASpiffeId::DotSegment),
            _ if !segment.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) => {
                return Err(NotASpiffeId::PathCharacter);
            }
            _ => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NotASpiffeId, parse};

    #[test]
    fn parses_trust_domain_and_path() {
        let id = parse("spiffe://mesh.local/ns/a").unwrap();
        assert_eq!((id.trust_domain, id.path), ("mesh.local", "/ns/a"));
        assert_eq!(parse("spiffe://mesh.local").unwrap().path, "");
    }

    #[test]
    fn violations_are_reported_by_name() {
        for (text, fault) in [
            ("", NotASpiffeId::Empty),
            ("http://x", NotASpiffeId::Scheme),
            ("spiffe:///x", NotASpiffeId::MissingTrustDomain),
            ("spiffe://X", NotASpiffeId::TrustDomainCharacter),
            ("spiffe://x/", NotASpiffeId::TrailingSlash),
            ("spiffe://x//y", NotASpiffeId::EmptySegment),
            ("spiffe://x/../y", NotASpiffeId::DotSegment),
            ("spiffe://x/ä", NotASpiffeId::PathCharacter),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }
}
