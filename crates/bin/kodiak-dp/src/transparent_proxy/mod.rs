//! Sending the traffic of a machine through its Envoy, without the applications knowing.
//!
//! In: [`Settings`]. Out: a [`Script`] that makes the rules or removes them, and [`Script::run`] to do so. The rules are for
//! IPv4, the family of the addresses that a mesh gives to its services.
//!
//! **Invariant:** all rules are in tables or chains of our own names; those, and nothing else, are ever removed.
//! **Invariant:** the same script twice does what it does once.

mod iptables;
mod nft;
mod run;

use std::process::{Command, Stdio};

pub use run::ScriptError;

/// What is redirected, and to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whose traffic is not redirected: Envoy's, and that of its runner.
    pub proxy_user: u32,
    pub inbound_port: u16,
    pub outbound_port: u16,
    /// Where questions to any nameserver go; nowhere else than asked where there is none.
    pub dns_port: Option<u16>,
    pub exclude_inbound_ports: Vec<u16>,
    pub exclude_outbound_ports: Vec<u16>,
}

/// Which program makes the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Nft,
    Iptables,
}

/// A text and the program that carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    backend: Backend,
    pub text: String,
}

/// The rules, in place of those that were made before.
pub fn install(settings: &Settings, backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::install(settings),
        Backend::Iptables => iptables::install(settings),
    };
    Script { backend, text }
}

/// Away with them, whether they are there or not.
pub fn uninstall(backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::UNINSTALL.to_owned(),
        Backend::Iptables => iptables::UNINSTALL.to_owned(),
    };
    Script { backend, text }
}

impl Backend {
    /// Those that this machine has, the better one first: nftables changes all rules at once.
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
