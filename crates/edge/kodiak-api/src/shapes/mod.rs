//! JSON shapes of answers, one file for each endpoint. The core crates return facts; field names and words are here.

pub(crate) mod hostnames;
pub(crate) mod identities;
pub(crate) mod identity_migration;
pub(crate) mod layout;
pub(crate) mod legacy;
pub(crate) mod migration;
mod origin;
pub(crate) mod policies;
pub(crate) mod policy_status;
pub(crate) mod references;
pub(crate) mod routes;
pub(crate) mod rules;
pub(crate) mod traffic;

pub(crate) use origin::ResourceMeta;
