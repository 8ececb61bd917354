//! The proxies that are connected, and their lives.
