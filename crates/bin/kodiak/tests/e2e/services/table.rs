//! Table of request results per step.

use super::Consumer;

#[derive(Default)]
pub(super) struct Table {
    answered: u64,
    failed: u64,
    rows: Vec<(String, u64, u64)>,
    failures: Vec<String>,
}

impl Table {
    /// All requests since the last row.
    pub(super) async fn row(&mut self, step: &str, consumers: [&mut Consumer; 2]) {
        let (before, failed_before) = (self.answered, self.failed);
        (self.answered, self.failed, self.failures) = (0, 0, Vec::new());
        for consumer in consumers {
            let counts = consumer.counted().await;
            self.answered += counts.answered;
            self.failed += counts.failed;
            self.failures.extend(counts.failures);
        }
        let (answered, failed) = (self.answered - before, self.failed - failed_before);
        self.rows.push((step.to_owned(), answered + failed, failed));
    }

    /// Prints it. Nothing may have failed.
    pub(super) fn end(&self) {
        println!("\n{:48} {:>8} {:>8}", "step", "requests", "failed");
        for (step, requests, failed) in &self.rows {
            println!("{step:48} {requests:>8} {failed:>8}");
        }
        println!("{:48} {:>8} {:>8}", "sum", self.answered + self.failed, self.failed);
        assert_eq!(self.failed, 0, "{}", self.failures.join("\n"));
    }
}
