//! Faults of a server: an earlier state of its data, another port, and a hang.

use std::{fs, net::TcpListener, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{HOST, Server, run};

impl Server {
    /// Copies the data of a stopped server to a named backup.
    pub fn save(&self, name: &str) -> Result<()> {
        ensure!(self.keeper.is_none(), "stop the server first");
        run(Command::new("cp").arg("-a").arg(self.data()).arg(self.folder.join(name)))
    }

    /// Replaces the data of a stopped server by a backup, like a failover that loses commits.
    pub fn put_back(&self, name: &str) -> Result<()> {
        ensure!(self.keeper.is_none(), "stop the server first");
        fs::remove_dir_all(self.data())?;
        run(Command::new("cp").arg("-a").arg(self.folder.join(name)).arg(self.data()))
    }

    /// Makes a stopped server listen on another port, unknown to clients, from its next run on. Returns the original
    /// port.
    pub fn hide(&mut self) -> Result<u16> {
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        Ok(std::mem::replace(&mut self.port, port))
    }

    /// Makes a stopped server listen on its original port again.
    pub fn show(&mut self, port: u16) {
        self.port = port;
    }

    /// Suspends every process of the server with SIGSTOP: connections stay open and nothing answers.
    pub fn hang(&self) -> Result<()> {
        self.signal("-STOP")
    }

    pub fn wake(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let text = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let main: u32 = text.lines().next().context("the pid file is empty")?.trim().parse()?;
        let mut processes = vec![main.to_string()];
        for entry in fs::read_dir("/proc")?.flatten() {
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == processes[0]))
            {
                processes.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        // A child that ended in the meantime is no failure.
        drop(Command::new("kill").arg(signal).args(&processes).output()?);
        Ok(())
    }
}
