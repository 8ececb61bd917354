//! HostnameGenerator: a template for the hostnames of destinations.

mod address;
mod check;
mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use address::{Address, AddressOrigin, GeneratorRef, GeneratorStatus};
pub use spec::{HostnameGenerator, Selector};

pub static KIND: Kind =
    Kind::plugin("HostnameGenerator", "hostnamegenerators", "hg", Language::of::<HostnameGenerator>())
        .scope(Scope::Global);

/// Fields that a template may use.
pub const FIELDS: [&str; 5] = ["Name", "DisplayName", "Namespace", "Mesh", "Zone"];
/// Functions that a template may call.
pub const FUNCTIONS: [&str; 1] = ["label"];

impl Spec for HostnameGenerator {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}
