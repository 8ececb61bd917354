//! Secret: bytes of one mesh that only administrators may read.

mod check;
mod data;
mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use data::SecretData;
pub use spec::Secret;

pub static KIND: Kind = Kind::legacy("Secret", "secrets", Scope::Mesh, Language::of::<Secret>()).access(Access::Admin);

impl Spec for Secret {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}
