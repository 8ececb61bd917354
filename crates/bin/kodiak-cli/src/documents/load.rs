//! Files to checked resources in one step, for commands of other crates.

use kodiak_model::{Checked, Place};
use kodiak_terminal::Terminal;

use super::{Checkup, FileArgs, Names, check};
use crate::report;

impl FileArgs {
    /// Whether no file was named.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads and checks all files, as the control plane at `place` would; `mesh` is for resources that name none. `None`
    /// when something is wrong, which is on the terminal then.
    pub fn checked(&self, mesh: &str, place: &Place, terminal: Terminal) -> anyhow::Result<Option<Vec<Checked>>> {
        let (files, mut findings) = self.read(terminal)?;
        let mut resources = Vec::new();
        if findings.is_empty() {
            Checkup { resources, findings } = check(&files, &Names { mesh }, place);
        }
        if findings.is_empty() {
            return Ok(Some(resources.into_iter().map(|resource| resource.checked).collect()));
        }
        terminal.rendered(&report::findings(&files, &findings, terminal.color));
        Ok(None)
    }
}
