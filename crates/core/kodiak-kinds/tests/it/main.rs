//! Tests over all kinds: every kind is complete, every case gives what it says, every example in a README is valid.

mod cases;
mod folders;
mod readmes;
mod table;
