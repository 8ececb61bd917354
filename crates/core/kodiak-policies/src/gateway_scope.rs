//! Policies that apply either to inbound traffic of sidecars (`from`, `rules`) or to outbound traffic of gateways
//! (`to`).
//!
//! The top-level `targetRef` decides which.

use kodiak_model::{FieldPath, Problems, TargetRef};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayScope {
    WithGateways,
    SidecarsOnly,
}

/// Each method returns the list when it is allowed in this scope, and otherwise reports a problem.
impl GatewayScope {
    /// Without a `targetRef` a policy selects the whole mesh, including gateways.
    pub(crate) fn of(target: Option<&TargetRef>) -> Self {
        if target.is_none_or(TargetRef::includes_gateways) { Self::WithGateways } else { Self::SidecarsOnly }
    }

    pub(crate) fn from<'a, T>(
        self,
        list: Option<&'a Vec<T>>,
        at: &FieldPath<'_>,
        problems: &mut Problems,
    ) -> Option<&'a Vec<T>> {
        const MESSAGE: &str = "must not be defined when the scope includes a Gateway, select only proxyType Sidecar or select only gateways and use spec.to";
        self.only(Self::SidecarsOnly, list, &at.field("from"), MESSAGE, problems)
    }

    pub(crate) fn rules<'a, T>(
        self,
        list: Option<&'a Vec<T>>,
        at: &FieldPath<'_>,
        problems: &mut Problems,
    ) -> Option<&'a Vec<T>> {
        self.only(Self::SidecarsOnly, list, &at.field("rules"), "must not be defined", problems)
    }

    pub(crate) fn to<'a, T>(
        self,
        list: Option<&'a Vec<T>>,
        at: &FieldPath<'_>,
        problems: &mut Problems,
    ) -> Option<&'a Vec<T>> {
        self.only(Self::WithGateways, list, &at.field("to"), "must not be defined", problems)
    }

    fn only<'a, T>(
        self,
        needed: Self,
        list: Option<&'a Vec<T>>,
        at: &FieldPath<'_>,
        message: &str,
        problems: &mut Problems,
    ) -> Option<&'a Vec<T>> {
        let list = list.filter(|list| !list.is_empty());
        if self == needed {
            return list;
        }
        problems.require(list.is_none(), at, message);
        None
    }
}
