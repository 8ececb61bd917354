//! Recorded answers of control planes about random meshes, in a folder for each mesh: `mesh.yaml` has its documents, and
//! `<control plane>.answers.json` what that control plane answers (see `answers.rs`). `cargo xtask meshes` is the
//! command for other folders and other control planes.

mod answers;
mod difference;

use std::path::{Path, PathBuf};
use std::{env, fs};

use kodiak_model::yaml;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use kodiak_oracle::meshes::{Mesh, whole_meshes};
use kodiak_oracle::settled::Settled;

/// Folder of the recorded meshes. Default: those of this crate.
const FOLDER: &str = "KODIAK_MESHES";
/// The control plane whose answers are compared. Default: Kodiak.
const BY: &str = "KODIAK_MESHES_BY";
const SEED: &str = "KODIAK_MESHES_SEED";
const COUNT: &str = "KODIAK_MESHES_COUNT";

const COMMITTED: &str = "recorded";
const OURS: &str = "kodiak";
const MESH_FILE: &str = "mesh.yaml";
/// Differences that are shown of one mesh.
const MOST_SHOWN: usize = 20;

#[test]
fn answers_are_as_recorded() {
    let folder = env::var_os(FOLDER).map_or_else(|| PathBuf::from(COMMITTED), PathBuf::from);
    let by = env::var(BY).unwrap_or_else(|_| OURS.to_owned());
    let update = by == OURS && env::var_os("UPDATE").is_some();
    let mut failed = Vec::new();
    let meshes = meshes_in(&folder);
    assert!(!meshes.is_empty(), "no mesh in {}", folder.display());
    for mesh in &meshes {
        let ours = answers::of(&Settled::of(read(mesh)).unwrap());
        let file = mesh.join(format!("{by}.answers.json"));
        if update {
            fs::write(&file, answers::text(&ours)).unwrap();
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let recorded: Value = serde_json::from_str(&text).unwrap();
        let found = difference::between(&recorded, &ours);
        if !found.is_empty() {
            let shown = found[..found.len().min(MOST_SHOWN)].join("\n  ");
            failed.push(format!("{}: {} differences\n  {shown}", file.display(), found.len()));
        }
    }
    assert!(
        failed.is_empty(),
        "{}\n{} of {} meshes differ; `UPDATE=1 cargo test -p kodiak-testkit --test it recorded` records them again",
        failed.join("\n"),
        failed.len(),
        meshes.len()
    );
}

/// With `KODIAK_MESHES_SEED`, writes meshes into the folder; without, into a temporary one.
#[test]
fn generated_meshes_are_written_and_read_back() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let folder = match (number(SEED), env::var_os(FOLDER)) {
        (Some(_), Some(folder)) => PathBuf::from(folder),
        _ => temporary.path().to_owned(),
    };
    let (seed, count) = (number(SEED).unwrap_or(1), number(COUNT).unwrap_or(5));
    for seed in seed..seed + count {
        let documents = generate(seed).documents();
        let into = folder.join(format!("mesh-{seed}"));
        fs::create_dir_all(&into).unwrap();
        let text: Vec<String> = documents.iter().map(yaml::to_string).collect();
        fs::write(into.join(MESH_FILE), text.join("---\n")).unwrap();
        assert_eq!(read(&into), documents, "mesh-{seed}");
        assert_eq!(generate(seed).documents(), documents, "the same seed gives the same mesh");
        Settled::of(documents).unwrap();
    }
}

fn generate(seed: u64) -> Mesh {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    whole_meshes().new_tree(&mut TestRunner::new_with_rng(Config::default(), random)).unwrap().current()
}

fn meshes_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut meshes: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    meshes.retain(|mesh| mesh.join(MESH_FILE).is_file());
    meshes.sort();
    meshes
}

fn read(mesh: &Path) -> Vec<Value> {
    let text = fs::read_to_string(mesh.join(MESH_FILE)).unwrap();
    yaml::parse(&text).unwrap().into_iter().map(|document| document.value).collect()
}
