//! The accept loop over real sockets, with limits that are short enough to wait for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod floods;
mod http1;
mod http2;
mod socket;
mod tls;
