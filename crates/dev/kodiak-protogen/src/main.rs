//! Generates `crates/core/kodiak-envoy/src/generated` and `descriptors.bin` from Envoy's .proto files.
//!
//! `cargo xtask codegen` runs it, with `--check` in CI. The .proto files are those of the crate `envoy-types`: its
//! version in the root manifest is the version of our messages. Descriptors are written for all of Envoy's messages, so
//! that users can write each of them as JSON; Rust code for those that Kodiak makes. To add one, add its file to
//! [`protos::PROTOS`].
//!
//! **Invariant:** equal inputs give equal bytes, so a second run changes nothing.
//! **Invariant:** maps are `BTreeMap`s everywhere, the well-known types included: with hash maps, one message has many
//! encodings, and a hash of the bytes would change when nothing did.

mod compare;
mod protos;
mod prune;
mod sources;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use anyhow::{Context, Result, bail};
use prost::Message;
use prost_build::Config;
use prost_types::FileDescriptorSet;

/// Outputs, relative to the crate's folder.
const CODE: &str = "src/generated";
const DESCRIPTORS: &str = "descriptors.bin";

/// Messages in protobuf, plain values in Rust. prost can encode them.
const PLAIN: &[(&str, &str)] = &[
    (".google.protobuf.BoolValue", "bool"),
    (".google.protobuf.BytesValue", "::prost::bytes::Bytes"),
    (".google.protobuf.DoubleValue", "f64"),
    (".google.protobuf.FloatValue", "f32"),
    (".google.protobuf.Int32Value", "i32"),
    (".google.protobuf.Int64Value", "i64"),
    (".google.protobuf.StringValue", "::prost::alloc::string::String"),
    (".google.protobuf.UInt32Value", "u32"),
    (".google.protobuf.UInt64Value", "u64"),
];

/// Determined at run time: builds of several clones may share their output.
fn own_folder() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn main() -> Result<()> {
    let committed = own_folder().join("../../core/kodiak-envoy");
    match env::args().nth(1).as_deref() {
        None => generate(&committed),
        Some("--check") => {
            let folder = env::temp_dir().join(format!("kodiak-protogen-{}", process::id()));
            let checked = generate(&folder).and_then(|()| compare::same(&committed, &folder));
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
            checked
        }
        Some(other) => bail!("unknown argument {other:?}: only --check is supported"),
    }
}

fn generate(target: &Path) -> Result<()> {
    let code = target.join(CODE);
    empty(&code)?;

    let mut config = config(&code)?;
    let folders = sources::folders()?;
    let all = [sources::of_envoy()?, protos::PROTOS.iter().map(|path| (*path).to_owned()).collect()].concat();
    let described = load(&mut config, &all, &folders)?;
    let descriptors = target.join(DESCRIPTORS);
    let bytes = described.encode_to_vec();
    fs::write(&descriptors, &bytes).with_context(|| format!("cannot write {}", descriptors.display()))?;

    let files = load(&mut config, protos::PROTOS, &folders)?;
    let (count, generated) = (described.file.len(), files.file.len());
    config.compile_fds(files).context("cannot write the Rust code")?;
    plain_names(&code)?;
    println!("{count} .proto files, {} bytes of descriptors, Rust code for {generated} files", bytes.len());
    Ok(())
}

/// Parses files, and drops what only other tools read.
fn load(config: &mut Config, files: &[impl AsRef<Path>], folders: &[PathBuf]) -> Result<FileDescriptorSet> {
    let mut files = config.load_fds(files, folders).context("protoc rejected the files")?;
    prune::options(&mut files)?;
    Ok(files)
}

fn config(code: &Path) -> Result<Config> {
    let mut config = Config::new();
    config
        .protoc_executable(protoc_bin_vendored::protoc_bin_path().context("protoc is unavailable for this platform")?)
        .skip_source_info()
        .compile_well_known_types()
        .btree_map(["."])
        .bytes(["."])
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .out_dir(code)
        .include_file("mod.rs");
    for (message, rust) in PLAIN {
        config.extern_path(*message, *rust);
    }
    Ok(config)
}

/// A package that is no longer needed leaves no file behind.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// prost names files after Rust modules, `r#type` included; ours are named after the packages.
fn plain_names(folder: &Path) -> Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.contains("r#") {
            fs::rename(&path, folder.join(name.replace("r#", "")))?;
        }
    }
    let list = folder.join("mod.rs");
    let plain = |line: &str| if line.contains("include!") { line.replace("r#", "") } else { line.to_owned() };
    let lines: Vec<_> = fs::read_to_string(&list)?.lines().map(plain).collect();
    fs::write(&list, lines.join("\n") + "\n").context("cannot write the list of modules")
}
