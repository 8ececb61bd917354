//! A row of the table of kinds: all facts about one kind.
//!
//! REST routes, the CLI, stores, schemas and OpenAPI iterate over the table; nothing else lists kinds.

use std::sync::OnceLock;

use crate::{language::Language, policy::ConfShape, schema::Node};

/// Whether resources of a kind belong to a mesh or to the whole control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Global,
    Mesh,
}

/// JSON layout of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Spec fields are beside `type`, `mesh` and `name`.
    Legacy,
    /// Spec fields are under `spec`, with `status` beside it.
    Plugin,
}

/// Access to a kind through the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Everyone,
    /// Secrets: only administrators may read and write them.
    Admin,
    /// Observed or derived: every user may read, only the control plane writes.
    ReadOnly,
}

/// Which control plane creates resources of a kind in a multi-zone deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A zone control plane may: such resources carry origin, zone and environment labels.
    Zone,
    GlobalOnly,
}

/// An `_overview`: a resource together with its insight, such as `Dataplane` with `DataplaneInsight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    pub name: &'static str,
    pub insight: &'static str,
    pub field: &'static str,
    pub insight_field: &'static str,
    /// Path that older clients use, beside `<path>/_overview`.
    pub old_path: &'static str,
}

/// Targets that a policy kind supports, and when it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table with yes and no")]
pub struct PolicyFacts {
    pub to: bool,
    pub from: bool,
    pub rules: bool,
    pub from_as_rules: bool,
    /// Layout of the configuration in `to` items.
    pub conf: ConfShape,
    /// Policy kinds are applied to a proxy in ascending order.
    pub order: u16,
}

impl PolicyFacts {
    /// Whether a policy has one conf (`default`) for the whole proxy, and no lists.
    pub const fn is_for_whole_proxy(&self) -> bool {
        !self.to && !self.from && !self.rules
    }
}

/// How much of a policy also applies to a MeshService that the policy references by its legacy `kuma.io/service` name,
/// `<name>_<namespace>_svc_<port>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyNames {
    All,
    /// Only the field at this path.
    Only(&'static [&'static str]),
    Nothing,
}

pub struct Kind {
    pub name: &'static str,
    /// Name for display, where the words of `name` do not give it.
    pub display: Option<&'static str>,
    /// Path segment in REST URLs.
    pub path: &'static str,
    pub other_path: Option<&'static str>,
    /// Short name in KRIs and SNIs; kinds without one have no KRI.
    pub short: Option<&'static str>,
    pub scope: Scope,
    pub shape: Shape,
    pub access: Access,
    pub provider: Provider,
    pub overview: Option<Overview>,
    pub policy: Option<PolicyFacts>,
    pub legacy_names: LegacyNames,
    /// Why resources of the kind are stored and validated, but change nothing. Every write returns it as a warning.
    pub without_effect: Option<&'static str>,
    pub language: Language,
    pub schema: SchemaCell,
}

/// Schema of a kind's spec, generated from its type on first use.
#[derive(Default)]
pub struct SchemaCell(OnceLock<Node>);

impl SchemaCell {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

/// A row starts as one of three usual forms; the chained methods set its differences.
impl Kind {
    pub const fn legacy(name: &'static str, path: &'static str, scope: Scope, language: Language) -> Self {
        Self {
            name,
            display: None,
            path,
            other_path: None,
            short: None,
            scope,
            shape: Shape::Legacy,
            access: Access::Everyone,
            provider: Provider::Zone,
            overview: None,
            policy: None,
            legacy_names: LegacyNames::All,
            without_effect: None,
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

    pub const fn display(mut self, display: &'static str) -> Self {
        self.display = Some(display);
        self
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

    pub const fn legacy_names(mut self, legacy_names: LegacyNames) -> Self {
        self.legacy_names = legacy_names;
        self
    }

    pub const fn without_effect(mut self, why: &'static str) -> Self {
        self.without_effect = Some(why);
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

    /// `MeshHTTPRoute` for display: `Mesh HTTP Route`.
    pub fn singular_display(&self) -> String {
        if let Some(display) = self.display {
            return display.to_owned();
        }
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
            _ if self.path.replace('-', "").len() == self.name.len() + 2 => format!("{singular}es"),
            _ => format!("{singular}s"),
        }
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

/// The table of kinds.
pub struct Kinds(Vec<&'static Kind>);

impl Kinds {
    /// Rows are sorted by name.
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

    /// Looks up a command-line argument: `meshtimeout`, `MeshTimeout`, `meshtimeouts`, `zone-ingress` or the short name
    /// `mt`.
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
