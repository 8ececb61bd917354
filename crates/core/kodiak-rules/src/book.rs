//! All policies and proxies of a mesh, each under what it can be found by.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Matched, Policy, Proxy, Shadow};

/// What a policy is known by: its kind and its name.
pub type PolicyKey = (&'static str, Arc<str>);

#[derive(Default)]
pub struct Book {}

impl Book {
    /// The names of proxies for which it may make a difference: those that the old one or the new one selects.
    pub fn set_policy(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) -> BTreeSet<Arc<str>> {
        todo!()
    }

    pub fn set_proxy(&mut self, name: &Arc<str>, proxy: Option<Arc<Proxy>>) {
        todo!()
    }

    /// The policies of a kind that are about a proxy.
    pub fn matched(&self, kind: &str, proxy: &str, shadow: Shadow) -> Matched {
        todo!()
    }

    /// As if the proxy were in the book.
    pub fn matched_by(&self, kind: &str, proxy: &Proxy, shadow: Shadow) -> Matched {
        todo!()
    }

    /// The proxies that a policy selects.
    pub fn selected(&self, policy: &Policy, shadow: Shadow) -> BTreeSet<Arc<str>> {
        todo!()
    }

    /// How many policies were looked at since the beginning, to answer any question.
    pub fn looked_at(&self) -> u64 {
        todo!()
    }
}
