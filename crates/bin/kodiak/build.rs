//! Options of the linker for the release binary.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if release && linux {
        // Generated code repeats itself: equal functions are folded into one.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        // Packed relocations take a few percent of the space of plain ones.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
