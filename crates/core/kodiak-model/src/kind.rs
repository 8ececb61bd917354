//! A row of the table of kinds: everything the rest of the program needs to know about one kind.
//!
//! REST routes, the command, stores, schemas and OpenAPI loop over the table; nothing else lists kinds.

use std::sync::OnceLock;

use crate::{language::Language, policy::ConfShape, schema::Node};

/// Where resources of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Global,
    Mesh,
}

/// How a kind is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The fields of the spec stand beside `type`, `mesh` and `name`.
    Legacy,
    /// The fields stand under `spec`, and `status` beside it.
    Plugin,
}

/// Who may read and write a kind through the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Everyone,
    /// Secrets: administrators alone, reading included.
    Admin,
    /// Observed or derived: everyone reads, only the control plane writes.
    ReadOnly,
}

/// Who may make resources of a kind, in a mesh of several zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A zone may: such resources carry origin, zone and environment labels.
    Zone,
    GlobalOnly,
}

/// The kind shown together with what was observed of it: `Dataplane` with `DataplaneInsight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    pub name: &'static str,
    pub insight: &'static str,
    pub field: &'static str,
    pub insight_field: &'static str,
    /// The path of older clients, beside `<path>/_overview`.
    pub old_path: &'static str,
}

/// What a policy may target, and when it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table with yes and no")]
pub struct PolicyFacts {
    pub to: bool,
    pub from: bool,
    pub rules: bool,
    pub from_as_rules: bool,
    /// Where the confs of `to` stand.
    pub conf: ConfShape,
    /// Policies are applied in ascending order.
    pub order: u16,
}

/// How much of a policy also holds for a MeshService that is meant by its old name, `<name>_<namespace>_svc_<port>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldNames {
    All,
    /// Only the field at the end of this path.
    Only(&'static [&'static str]),
    Nothing,
}

pub struct Kind {
    pub name: &'static str,
    /// The segment of its URLs.
    pub path: &'static str,
    pub other_path: Option<&'static str>,
    /// The short name in KRIs and SNIs; kinds without one have no KRI.
    pub short: Option<&'static str>,
    pub scope: Scope,
    pub shape: Shape,
    pub access: Access,
    pub provider: Provider,
    pub overview: Option<Overview>,
    pub policy: Option<PolicyFacts>,
    pub old_names: OldNames,
    pub language: Language,
    pub schema: SchemaCell,
}

/// The schema of a kind's spec, made from its type when first asked for.
#[derive(Default)]
pub struct SchemaCell(OnceLock<Node>);

impl SchemaCell {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

/// Rows start as one of three usual forms; what is different is said by the methods that follow.
impl Kind {
    pub const fn legacy(name: &'static str, path: &'static str, scope: Scope, language: Language) -> Self {
        Self {
            name,
            path,
            other_path: None,
            short: None,
            scope,
            shape: Shape::Legacy,
            access: Access::Everyone,
            provider: Provider::Zone,
            overview: None,
            policy: None,
            old_names: OldNames::All,
            language,
            schema: SchemaCell::new(),
        }
    }

    pub const fn plugin(name: &'static str, path: &'static str, short: &'static str, language: Language) -> Self {
        let mut kind = Self::legacy(name, path, Scope::Mesh, language);
        kind.shape = Shape::Plugin;
        kind.short = Some(short);
        kind
    }

    pub const fn policy(
        name: &'static str,
        path: &'static str,
        short: &'static str,
        facts: PolicyFacts,
        language: Language,
    ) -> Self {
        let mut kind = Self::plugin(name, path, short, language);
        kind.policy = Some(facts);
        kind
    }

    pub const fn short(mut self, short: &'static str) -> Self {
        self.short = Some(short);
        self
    }

    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    pub const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    pub const fn global_only(mut self) -> Self {
        self.provider = Provider::GlobalOnly;
        self
    }

    pub const fn old_names(mut self, old_names: OldNames) -> Self {
        self.old_names = old_names;
        self
    }

    pub const fn other_path(mut self, path: &'static str) -> Self {
        self.other_path = Some(path);
        self
    }

    pub const fn overview(mut self, overview: Overview) -> Self {
        self.overview = Some(overview);
        self
    }
}

impl Kind {
    pub fn spec_node(&self) -> &Node {
        self.schema.0.get_or_init(|| Node::compile(&(self.language.schema)()))
    }

    pub fn is_policy(&self) -> bool {
        self.policy.is_some()
    }

    pub fn read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// `MeshHTTPRoute` as people say it: `Mesh HTTP Route`.
    pub fn singular_display(&self) -> String {
        let bytes = self.name.as_bytes();
        let mut text = String::with_capacity(self.name.len() + 4);
        for (n, c) in self.name.char_indices() {
            let starts_word = n > 0
                && c.is_ascii_uppercase()
                && (bytes[n - 1].is_ascii_lowercase() || bytes.get(n + 1).is_some_and(u8::is_ascii_lowercase));
            if starts_word {
                text.push(' ');
            }
            text.push(c);
        }
        text
    }

    pub fn plural_display(&self) -> String {
        let singular = self.singular_display();
        match singular.strip_suffix('y') {
            Some(stem) if self.path.ends_with("ies") => format!("{stem}ies"),
            _ if self.path.len() == self.name.len() + 2 => format!("{singular}es"),
            _ => format!("{singular}s"),
        }
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

/// The table of kinds, with its look-ups.
pub struct Kinds(Vec<&'static Kind>);

impl Kinds {
    /// The table is answered in the order of names.
    pub fn new(rows: impl IntoIterator<Item = &'static Kind>) -> Self {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|kind| kind.name);
        Self(rows)
    }

    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.0.iter().copied()
    }

    pub fn by_name(&self, name: &str) -> Option<&'static Kind> {
        let found = self.0.binary_search_by_key(&name, |kind| kind.name).ok()?;
        self.0.get(found).copied()
    }

    pub fn by_path(&self, path: &str) -> Option<&'static Kind> {
        self.iter().find(|kind| kind.path == path || kind.other_path == Some(path))
    }

    /// By what people type: `meshtimeout`, `MeshTimeout`, `meshtimeouts`, `zone-ingress` or the short name `mt`.
    pub fn by_arg(&self, arg: &str) -> Option<&'static Kind> {
        let plain: String = arg.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        self.iter().find(|kind| {
            kind.name.eq_ignore_ascii_case(&plain)
                || kind.path.replace('-', "") == plain
                || kind.short == Some(plain.as_str())
        })
    }

    pub fn by_short(&self, short: &str) -> Option<&'static Kind> {
        self.iter().find(|kind| kind.short == Some(short))
    }
}
