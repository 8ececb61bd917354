//! Resident memory of another process.

use std::fs;

pub(crate) struct Memory {
    process: u32,
    /// Resident when the floods began.
    before: u64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> Self {
        let before = read(process, "VmRSS:");
        Self { process, before }
    }

    /// How much more than before it had at its peak. The kernel keeps the peak, so none is missed.
    pub(crate) fn peak_growth(&self) -> u64 {
        read(self.process, "VmHWM:").saturating_sub(self.before)
    }

    pub(crate) fn before(&self) -> u64 {
        self.before
    }
}

/// In bytes.
fn read(process: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in {status}"));
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
