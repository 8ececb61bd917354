//! Removes definitions that only other tools read: validation rules and annotations for Envoy's documentation.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// Files, or folders of files, that define only options.
const OPTIONS: &[&str] =
    &["google/protobuf/descriptor.proto", "validate/", "envoy/annotations/", "udpa/annotations/", "xds/annotations/"];

/// Removes the files that define nothing but options. Their uses are gone already: decoded descriptors drop unknown options.
pub(crate) fn options(files: &mut FileDescriptorSet) -> Result<()> {
    files.file.retain(|file| !defines_options(file.name()) && !only_imports(file));
    for file in &mut files.file {
        let lists_by_index = !file.public_dependency.is_empty() || !file.weak_dependency.is_empty();
        ensure!(!lists_by_index, "{} has public imports, which are unsupported", file.name());
        file.dependency.retain(|import| !defines_options(import));
        file.extension.clear();
    }
    let kept: BTreeSet<_> = files.file.iter().map(FileDescriptorProto::name).collect();
    for file in &files.file {
        for import in &file.dependency {
            ensure!(kept.contains(import.as_str()), "{} imports {import}, which does not exist", file.name());
        }
    }
    Ok(())
}

/// Whether a file has public imports and nothing else.
fn only_imports(file: &FileDescriptorProto) -> bool {
    !file.public_dependency.is_empty() && file.message_type.is_empty() && file.enum_type.is_empty()
}

fn defines_options(path: &str) -> bool {
    OPTIONS.iter().any(|start| path.starts_with(start))
}
