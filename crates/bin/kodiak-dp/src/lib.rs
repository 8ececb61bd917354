//! The proxy runner: what stands beside an application and runs its Envoy. Today it finds and installs the program.
//!
//! **Invariant:** what the user named is used or refused; nothing else is taken in its place.
//! **Invariant:** a file that stands under the name of the program is a whole program; what is half made has another name.
//! **Invariant:** the environment is an argument; see [`envoy::Environment`].

pub mod envoy;
