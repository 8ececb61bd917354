//! Redirects the traffic of a host through its Envoy, transparently for applications.
//!
//! In: [`Settings`]. Out: a [`Script`] that installs or removes the rules, and [`Script::run`] to execute it. The rules
//! are for IPv4, the family of virtual IPs.
//!
//! **Invariant:** all rules are in tables or chains of our own names; only those are ever removed.
//! **Invariant:** scripts are idempotent.

mod iptables;
mod nft;
mod run;

use std::process::{Command, Stdio};

pub use run::ScriptError;

/// Redirected traffic and its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// User whose traffic is not redirected: Envoy's and `kodiak dp`'s.
    pub proxy_user: u32,
    pub inbound_port: u16,
    pub outbound_port: u16,
    /// Port that DNS queries are redirected to; `None` disables the redirection of DNS.
    pub dns_port: Option<u16>,
    pub exclude_inbound_ports: Vec<u16>,
    pub exclude_outbound_ports: Vec<u16>,
}

/// The program that installs the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Nft,
    Iptables,
}

/// A text and the program that executes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    backend: Backend,
    pub text: String,
}

/// The rules, replacing earlier ones.
pub fn install(settings: &Settings, backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::install(settings),
        Backend::Iptables => iptables::install(settings),
    };
    Script { backend, text }
}

/// Removes them, if there are any.
pub fn uninstall(backend: Backend) -> Script {
    let text = match backend {
        Backend::Nft => nft::UNINSTALL.to_owned(),
        Backend::Iptables => iptables::UNINSTALL.to_owned(),
    };
    Script { backend, text }
}

impl Backend {
    /// Installed backends, the better one first: nftables changes all rules at once.
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
