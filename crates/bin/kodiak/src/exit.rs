//! How the command ends: a code for scripts, and a text for people.

use std::process::ExitCode;

use crate::client::ClientError;

/// What scripts look at. The numbers are part of the command's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    /// The server or a check said no.
    Refused,
    /// The command line, the configuration or a file name is wrong.
    Usage,
    /// There is no control plane where we looked.
    Unreachable,
    /// The Envoy that we ran ended by itself, with this code; 128 and the number of the signal where one ended it.
    Envoy(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Envoy(code) => code,
        })
    }
}

/// The user asked for something that cannot be done as it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

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

/// `kodiak get … | head` closes our output early; that is no error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

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

    #[test]
    fn a_closed_pipe_is_recognised() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(closed).context("cannot write")));
        assert!(!is_broken_pipe(&usage("x")));
    }
}
