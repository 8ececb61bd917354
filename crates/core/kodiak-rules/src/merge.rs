//! Many confs to one.

use kodiak_model::policy::{Conf, ConfShape};

/// Weakest first. Objects are merged deep, everything else is replaced; what is called `append...` is put together.
pub fn patch<'a>(confs: impl IntoIterator<Item = &'a Conf>) -> Conf {
    todo!()
}

/// As the kind wants it: one conf, or one for each hostname.
pub fn merge<'a>(shape: ConfShape, confs: impl IntoIterator<Item = &'a Conf>) -> Vec<Conf> {
    todo!()
}
