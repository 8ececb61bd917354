//! Exit code and text of an error.

use kodiak_terminal::{Exit, Usage};

use crate::client::ClientError;

/// The code of an error, by what is at its root.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if cause.is::<Usage>() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return if error.is_unreachable() { Exit::Unreachable } else { Exit::Refused };
        }
    }
    Exit::Refused
}

/// The error with all its causes, and below it what can be done.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let mut text = format!("Error: {error:#}");
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>()?.hint());
    if let Some(hint) = hint {
        text.push_str("\n\n");
        text.push_str(&hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kodiak_terminal::usage;

    use super::*;

    #[test]
    fn the_code_is_that_of_the_root() {
        let wrong = Err::<(), _>(usage("no such file")).context("cannot read the documents").unwrap_err();
        assert_eq!(of(&wrong), Exit::Usage);
        assert_eq!(explain(&wrong), "Error: cannot read the documents: no such file");
        assert_eq!(of(&anyhow::anyhow!("anything else")), Exit::Refused);
        let silent = ClientError::TimedOut { address: "http://cp:5681".to_owned(), after: "1s".to_owned() };
        assert_eq!(of(&silent.into()), Exit::Unreachable);
    }
}
