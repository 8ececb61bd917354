//! Path of a field in a resource: `spec.to[0].default.tags["kuma.io/service"]`.
//!
//! A path is a chain of borrowed segments on the stack, so that validating a valid resource allocates nothing.

use std::fmt;

#[derive(Clone, Copy)]
pub struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The resource itself: the root of all paths of legacy kinds.
    pub const ROOT: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Root };
    /// The root of all paths of plugin kinds.
    pub const SPEC: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Field("spec") };
    pub const NAME: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Field("name") };
    pub const MESH: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Field("mesh") };
    pub const TYPE: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Field("type") };
    pub const LABELS: FieldPath<'static> = FieldPath { parent: None, segment: Segment::Field("labels") };

    pub fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Field(name) }
    }

    pub fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Index(index) }
    }

    /// An entry of a map with user-defined keys: `tags["kuma.io/service"]`.
    pub fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), segment: Segment::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below_root = match self.parent {
            Some(parent) => {
                parent.fmt(f)?;
                !matches!(parent.segment, Segment::Root)
            }
            None => false,
        };
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Field(name) if below_root => write!(f, ".{name}"),
            Segment::Field(name) => f.write_str(name),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}

impl fmt::Debug for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::FieldPath;

    #[test]
    fn prints_fields_indexes_and_keys() {
        let to = FieldPath::SPEC.field("to");
        let item = to.index(0);
        let tags = item.field("tags");
        assert_eq!(tags.key("kuma.io/service").to_string(), r#"spec.to[0].tags["kuma.io/service"]"#);
        assert_eq!(FieldPath::ROOT.field("networking").to_string(), "networking");
        assert_eq!(FieldPath::ROOT.to_string(), "");
    }
}
