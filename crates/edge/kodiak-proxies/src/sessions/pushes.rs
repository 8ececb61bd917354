//! Pushes under way: streams to which a snapshot was published, and which have not sent it yet.
//!
//! The configuration writer gathers changes while it waits for them. Every proxy that arrives changes the configuration of
//! all others: without the wait, a crowd of proxies would be pushed to everybody one proxy at a time, and the pushes would
//! take the processors from the proxies that are still to be admitted.
//!
//! **Invariant:** a stream whose client does not read is waited for once, not at every push.

use tokio::sync::Notify;

use super::Sessions;

/// So many pushes under way cost little: they are not waited for. Neither is the last eighth of larger rounds, because some
/// proxies are always slower than the others.
const FEW: usize = 16;

/// Counts streams that send.
#[derive(Default)]
pub(super) struct Pushes {
    sending: usize,
    /// The number of streams that are not waited for.
    few: usize,
}

/// Push of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    Sent,
    /// This revision is being sent.
    Sending(u64),
    /// It was waited for too long. It counts again once it has sent the newest snapshot.
    Slow(u64),
}

impl Pushes {
    pub(super) fn published(&mut self, push: &mut Push, revision: u64) {
        *push = match *push {
            Push::Sent => {
                self.sending += 1;
                Push::Sending(revision)
            }
            Push::Sending(_) => Push::Sending(revision),
            Push::Slow(_) => Push::Slow(revision),
        };
    }

    pub(super) fn sent(&mut self, push: &mut Push, sent: u64, enough: &Notify) {
        match *push {
            Push::Sending(revision) | Push::Slow(revision) if revision <= sent => self.ended(push, enough),
            Push::Sent | Push::Sending(_) | Push::Slow(_) => (),
        }
    }

    /// The push is complete, or its stream has ended.
    pub(super) fn ended(&mut self, push: &mut Push, enough: &Notify) {
        if let Push::Sending(_) = std::mem::replace(push, Push::Sent) {
            self.sending -= 1;
            if self.are_few() {
                enough.notify_waiters();
            }
        }
    }

    fn are_few(&self) -> bool {
        self.sending <= self.few.max(FEW)
    }
}

impl Sessions {
    /// Snapshots for this many proxies follow.
    pub(crate) fn begin_pushes(&self, proxies: usize) {
        self.state().pushes.few = proxies / 8;
    }

    /// Waits until most streams have sent what was published.
    pub(crate) async fn pushed(&self) {
        loop {
            let enough = self.enough.notified();
            if self.state().pushes.are_few() {
                return;
            }
            enough.await;
        }
    }

    pub(crate) fn has_pushed(&self) -> bool {
        self.state().pushes.are_few()
    }

    /// Streams that still send are not waited for any longer.
    pub(crate) fn give_up_pushes(&self) {
        let mut state = self.state();
        for stream in state.streams.values_mut() {
            if let Push::Sending(revision) = stream.push {
                stream.push = Push::Slow(revision);
            }
        }
        state.pushes.sending = 0;
        self.enough.notify_waiters();
    }
}
