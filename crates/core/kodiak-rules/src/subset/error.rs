//! Why rules cannot be built, and which policies cause it.

use std::{fmt, sync::Arc};

use super::{
    build::is_plain,
    groups::{self, MOST_COMBINATIONS},
    pieces::{self, Piece},
};
use crate::{Policy, Resources};

/// Why rules cannot be built.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleError {
    /// Too many combinations of tags. The list of policies is minimal: without any of them, there are not too many. The
    /// number is how many were counted before the search stopped.
    TooMany { policies: Vec<Arc<Policy>>, combinations: usize },
    /// The targets cannot be represented as tags, or cannot be resolved. In Kuma's wording.
    Unfit(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { policies, combinations } => {
                let names: Vec<String> = policies.iter().map(|policy| format!("{:?}", policy.name)).collect();
                let kind = policies.first().map_or("policy", |policy| policy.kind.name);
                let (noun, list) = (if names.len() == 1 { "" } else { " together" }, names.join(", "));
                write!(
                    f,
                    "{kind} {list}: the tags that they name{noun} have at least {combinations} combinations, and each \
                     needs a rule of its own, of which {MOST_COMBINATIONS} are possible: name fewer tags, for example \
                     one tag that all those callers or destinations have in common"
                )
            }
            Self::Unfit(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for RuleError {}

/// Whether policies of one kind would have too many combinations if all of them matched one proxy. Builds no rules.
pub fn explodes(policies: &[Arc<Policy>]) -> Option<RuleError> {
    let to = |policies: &[Arc<Policy>]| count_to(policies, None);
    let from = || Some(too_many(policies, count_from(policies)?, count_from));
    from().or_else(|| Some(too_many(policies, to(policies)?, to)))
}

/// Finds a minimal set of policies with too many combinations.
///
/// More policies never have fewer combinations. So there is a first one with which those before it become too many, and
/// that one is needed; then the search continues with those before it.
pub(super) fn too_many(
    policies: &[Arc<Policy>],
    combinations: usize,
    count: impl Fn(&[Arc<Policy>]) -> Option<usize>,
) -> RuleError {
    let (mut needed, mut rest): (Vec<Arc<Policy>>, _) = (Vec::new(), policies);
    let enough = |some: &[Arc<Policy>], needed: &[Arc<Policy>]| count(&[some, needed].concat()).is_some();
    while !enough(&[], &needed) && !rest.is_empty() {
        let (mut too_few, mut plenty) = (0, rest.len());
        while plenty - too_few > 1 {
            let middle = usize::midpoint(too_few, plenty);
            if enough(&rest[..middle], &needed) {
                plenty = middle;
            } else {
                too_few = middle;
            }
        }
        needed.insert(0, rest[too_few].clone());
        rest = &rest[..too_few];
    }
    let combinations = count(&needed).unwrap_or(combinations);
    RuleError::TooMany { policies: needed, combinations }
}

/// A lower bound of the number of combinations, if there are too many.
pub(super) fn count_from(policies: &[Arc<Policy>]) -> Option<usize> {
    count(&pieces::from(policies).ok()?)
}

pub(super) fn count_to(policies: &[Arc<Policy>], resources: Option<&Resources>) -> Option<usize> {
    let pieces = pieces::to(policies, resources).ok()?;
    if is_plain(&pieces) { None } else { count(&pieces) }
}

fn count(pieces: &[Piece]) -> Option<usize> {
    groups::too_many(&pieces.iter().map(|piece| &piece.tags).collect::<Vec<_>>())
}
