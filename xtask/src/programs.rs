//! Programs that tests start, and their Debian packages. CI installs missing ones, because a test that is skipped there
//! would never run anywhere.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::Postgres;
use crate::process;

/// Programs on `PATH`, and their packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("dig", "bind9-dnsutils"),
    ("faketime", "faketime"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("python3", "python3-venv"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];
/// PostgreSQL's programs are not on `PATH`.
const POSTGRES: &str = "postgresql";

/// With these set, tests fail instead of being skipped. PostgreSQL, Envoy and SPIRE have their own variables.
const REQUIRE: [&str; 2] = ["KODIAK_REQUIRE_ROOT", "KODIAK_REQUIRE_PROGRAMS"];

/// Makes the programs mandatory for the tests that `command` starts.
pub(crate) fn require(command: &mut Command) {
    command.envs(REQUIRE.map(|variable| (variable, "1")));
}

/// Installs the packages of all missing programs, or lists them.
pub(crate) fn install_missing() -> Result<()> {
    let mut missing = packages(|program| process::folder_on_path(program).is_some());
    if Postgres::find().is_none() {
        missing.insert(POSTGRES);
    }
    if !missing.is_empty() {
        install(&missing)?;
    }
    let namespaces = process::run(Command::new("unshare").args(["--net", "--mount", "true"]));
    namespaces.context("tests need network and mount namespaces; run this as root: `sudo -E cargo xtask ci`")
}

fn packages(is_installed: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    PROGRAMS.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect()
}

fn install(packages: &BTreeSet<&str>) -> Result<()> {
    let shown = packages.iter().copied().collect::<Vec<_>>().join(" ");
    if process::folder_on_path("apt-get").is_none() {
        bail!("tests need these Debian packages, install their equivalents: {shown}");
    }
    if !is_root()? {
        bail!("tests need programs that are not installed: run `sudo apt-get install {shown}`");
    }
    println!("Installing {shown}.");
    process::run(Command::new("apt-get").arg("update"))?;
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "--no-install-recommends"]).args(packages);
    process::run(command.env("DEBIAN_FRONTEND", "noninteractive"))?;
    match PROGRAMS.iter().find(|(program, _)| process::folder_on_path(program).is_none()) {
        Some((program, package)) => bail!("{package} was installed, but {program} is not on PATH"),
        None => Ok(()),
    }
}

fn is_root() -> Result<bool> {
    Ok(process::output(Command::new("id").arg("-u"))?.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_that_is_missing_is_named_once() {
        let missing = packages(|program| !["nft", "setpriv", "unshare"].contains(&program));
        assert_eq!(missing, ["nftables", "util-linux"].into());
        assert!(packages(|_| true).is_empty());
    }

    #[test]
    fn tests_may_not_be_skipped() {
        let mut command = Command::new("true");
        require(&mut command);
        for variable in REQUIRE {
            assert!(
                command.get_envs().any(|(key, value)| key == variable && value == Some("1".as_ref())),
                "{variable}"
            );
        }
    }
}
