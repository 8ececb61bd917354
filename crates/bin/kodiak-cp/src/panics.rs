//! Panic hook that logs panics, with the span of their task.

use std::{panic, thread};

use kodiak_reconcilers::quarantine::is_caught;

/// Replaces the hook that prints panics to standard error.
pub(crate) fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        if is_caught() {
            return; // reported where it was caught
        }
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = thread::current().name().unwrap_or_default().to_owned();
        let message = panic.payload_as_str().map_or_else(String::new, str::to_owned);
        tracing::error!(message, location, thread, backtrace = %std::backtrace::Backtrace::capture(), "panicked");
    }));
}
