//! GlobalSecret: bytes for the whole control plane that only administrators may read.

mod check;
mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::GlobalSecret;

pub static KIND: Kind = Kind::legacy("GlobalSecret", "globalsecrets", Scope::Global, Language::of::<GlobalSecret>())
    .other_path("global-secrets")
    .access(Access::Admin);

impl Spec for GlobalSecret {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}
