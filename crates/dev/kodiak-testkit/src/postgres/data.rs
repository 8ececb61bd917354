//! Faults of a server: its data as it was earlier, another address, and a hang.

use std::{fs, net::TcpListener, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{HOST, Server, run};

impl Server {
    /// Copies the data of a stopped server aside, under a name.
    pub fn save(&self, name: &str) -> Result<()> {
        ensure!(self.keeper.is_none(), "stop the server first");
        run(Command::new("cp").arg("-a").arg(self.data()).arg(self.folder.join(name)))
    }

    /// Replaces the data of a stopped server by a copy that was saved, as a failover does that loses commits.
    pub fn put_back(&self, name: &str) -> Result<()> {
        ensure!(self.keeper.is_none(), "stop the server first");
        fs::remove_dir_all(self.data())?;
        run(Command::new("cp").arg("-a").arg(self.folder.join(name)).arg(self.data()))
    }

    /// Makes a stopped server listen on another port from its next run on, where clients do not look for it. Gives the
    /// port that it had.
    pub fn hide(&mut self) -> Result<u16> {
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        Ok(std::mem::replace(&mut self.port, port))
    }

    /// Makes a stopped server listen where it did before it was hidden.
    pub fn show(&mut self, port: u16) {
        self.port = port;
    }

    /// Stops every process of the server with SIGSTOP: connections stay open and nothing answers.
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
        // A child that ended meanwhile is no failure.
        drop(Command::new("kill").arg(signal).args(&processes).output()?);
        Ok(())
    }
}
