//! Exit codes, and errors in how a command was used.

use std::process::ExitCode;

/// Exit code of the command. The numbers are part of its contract with scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Fine,
    /// The server refused the request, or a check failed.
    Refused,
    /// The command line, the configuration or a file name is wrong.
    Usage,
    /// No control plane answers at the address.
    Unreachable,
    /// The answer is no: a call cannot work, a caller would lose access, or an import is incomplete.
    Negative,
    /// Envoy exited by itself with this code; 128 plus the signal number if a signal ended it.
    Envoy(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Negative => 4,
            Exit::Envoy(code) => code,
        })
    }
}

/// The command was used in a way that cannot work: [`Exit::Usage`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// `kodiak get … | head` closes our output early; that is no error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_a_closed_pipe() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(closed).context("cannot write")));
        assert!(!is_broken_pipe(&usage("x")));
    }
}
