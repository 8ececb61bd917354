//! The resource language: types, schemas and validation of every resource.
//!
//! In: untyped documents. Out: checked resources, or every problem with its path.
//!
//! **Invariant:** pure. No files, sockets, clock, randomness or environment.
//! **Invariant:** one way in. Every document becomes a resource through [`check`](mod@check).
//! **Invariant:** nothing here depends on Envoy, a store or HTTP.

#![deny(clippy::disallowed_methods)]

pub mod address;
pub mod backend_ref;
mod cancellation;
pub mod check;
mod choice;
mod cidr;
pub mod condition;
pub mod conform;
pub mod data_source;
pub mod dns;
pub mod draft;
pub mod duration;
pub mod extension;
mod field_path;
pub mod go_template;
mod inbound_tls;
mod int_or_string;
mod key;
mod kind;
pub mod kinds;
pub mod kri;
pub mod label_selector;
pub mod labels;
pub mod language;
mod legacy_name;
pub mod names;
pub mod policy;
mod problem;
pub mod proto_json;
pub mod protocol;
pub mod re2;
mod route_hash;
pub mod schema;
pub mod sni;
pub mod source_match;
pub mod source_walk;
pub mod spiffe;
pub mod subscription;
pub mod tags;
pub mod target_ref;
pub mod tls;
pub mod uri;
pub mod written;
pub mod yaml;

pub use backend_ref::BackendRef;
pub use cancellation::{Cancellation, Cancelled};
pub use check::{Checked, check};
pub use choice::{Choice, Word, quoted};
pub use cidr::{Cidr, CidrError};
pub use condition::Condition;
pub use draft::Draft;
pub use duration::{GoDuration, ProtoDuration};
pub use field_path::FieldPath;
pub use inbound_tls::InboundTls;
pub use int_or_string::IntOrString;
pub use key::{ProxyKey, ResourceKey};
pub use kind::{Access, Kind, Kinds, LegacyNames, Overview, PolicyFacts, Provider, SchemaCell, Scope, Shape};
pub use kri::Kri;
pub use label_selector::LabelSelector;
pub use labels::{Labels, Place};
pub use language::{CheckCtx, CheckedSpec, Erased, Language, NoStatus, PortSection, Spec, Status};
pub use legacy_name::LegacyName;
pub use problem::{Problem, Problems};
pub use protocol::Protocol;
pub use route_hash::route_hash;
pub use target_ref::{ProxyType, TargetKind, TargetRef, TargetRules};
