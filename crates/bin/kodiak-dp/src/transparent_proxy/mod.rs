//! Transparent proxying: redirects the traffic of a machine to its Envoy.
//!
//! In: [`RedirectionSettings`]. Out: a [`Script`] that adds the rules or removes them, and [`Script::run`] to do so. The rules are for
//! IPv4, the family of the virtual addresses of a mesh.
//!
//! **Invariant:** all rules are in tables or chains of our own names; those, and nothing else, are ever removed.
//! **Invariant:** scripts are idempotent.

mod iptables;
mod nft;
mod run;

use std::process::{Command, Stdio};

pub use run::ScriptError;

/// Traffic that is redirected, and its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectionSettings {
    /// User whose traffic is not redirected: that of Envoy and of the sidecar process.
    pub proxy_user: u32,
    pub inbound_port: u16,
    pub outbound_port: u16,
    /// Port that gets DNS queries to any nameserver; `None` does not redirect them.
    pub dns_port: Option<u16>,
    pub exclude_inbound_ports: Vec<u16>,
    pub exclude_outbound_ports: Vec<u16>,
}

/// Program that installs the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Nft,
    Iptables,
}

/// A script and the program that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    backend: Backend,
    pub text: String,
}

/// Installs the rules, in place of earlier ones.
pub fn install(settings: &RedirectionSettings, backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::install(settings),
        Backend::Iptables => iptables::install(settings),
    };
    Script { backend, text }
}

/// Removes the rules, whether they exist or not.
pub fn uninstall(backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::UNINSTALL.to_owned(),
        Backend::Iptables => iptables::UNINSTALL.to_owned(),
    };
    Script { backend, text }
}

impl Backend {
    /// Programs of this machine, in the order of preference: nftables replaces all rules at once.
    pub fn installed() -> impl Iterator<Item = Self> {
        [Self::Nft, Self::Iptables].into_iter().filter(|backend| backend.is_installed())
    }

    pub fn is_installed(self) -> bool {
        let mut command = Command::new(self.name());
        command.arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Iptables => "iptables",
        }
    }
}

#[cfg(test)]
mod tests;
