//! Which differences between a client and its snapshot a response may hold.

use std::sync::Arc;

use crate::resource::Resources;
use crate::subscription::Part;
use crate::type_url::TypeUrl;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub(crate) part: Part<'a>,
    /// The client waits for all resources that exist.
    pub(crate) owes_all: bool,
    pub(crate) type_url: TypeUrl,
}

impl Gate<'_> {
    /// Whether more may pass than names that the client waits for.
    pub(crate) fn is_open(self) -> bool {
        self.owes_all || matches!(self.part, Part::AllBut(_))
    }

    pub(crate) fn passes(self, name: &Arc<str>, target: &Resources) -> bool {
        let awaited = self.owes_all && (target.contains_key(name) || !self.type_url.removed_last());
        awaited
            || match self.part {
                Part::Owed => false,
                Part::AllBut(names) => !names.contains(name),
            }
    }
}
