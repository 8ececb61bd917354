//! Carrying a script out, where we may.

use std::io::{self, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use super::{Backend, Script};

/// The number of CAP_NET_ADMIN.
const NET_ADMIN: u64 = 12;

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error(
        "only root, or a process with CAP_NET_ADMIN, may change where traffic goes; \
         run this with sudo, or see with --dry-run what it would do"
    )]
    NotAllowed,
    #[error("{} is not installed; install it, or choose another with --backend", .0.name())]
    NoProgram(Backend),
    #[error("cannot run {program}")]
    Run { program: &'static str, source: io::Error },
    #[error("{program} failed ({status}):\n{output}")]
    Failed { program: &'static str, status: ExitStatus, output: String },
}

impl Script {
    pub fn run(&self) -> Result<(), ScriptError> {
        if !may_change_rules() {
            return Err(ScriptError::NotAllowed);
        }
        if !self.backend.is_installed() {
            return Err(ScriptError::NoProgram(self.backend));
        }
        let mut command = match self.backend {
            Backend::Nft => Command::new("nft"),
            Backend::Iptables => Command::new("sh"),
        };
        match self.backend {
            Backend::Nft => command.args(["--file", "-"]),
            Backend::Iptables => command.arg("-s"),
        };
        let program = self.backend.name();
        let failed = |source| ScriptError::Run { program, source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut stdin = child.stdin.take().expect("it was asked for");
        // A program that ends before it has read everything says why by itself.
        let written = stdin.write_all(self.text.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
            return Err(ScriptError::Failed { program, status: output.status, output: text });
        }
        written.map_err(failed)
    }
}

/// Whether the process may; where the system does not say, the program will.
fn may_change_rules() -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| has_net_admin(&status))
}

fn has_net_admin(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_none_or(|bits| bits >> NET_ADMIN & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_to_change_rules_is_seen() {
        assert!(has_net_admin("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(has_net_admin("CapEff:\t0000000000001000\n"));
        assert!(!has_net_admin("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"));
        assert!(has_net_admin("something else"));
    }
}
