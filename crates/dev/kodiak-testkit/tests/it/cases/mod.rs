//! `cases/<name>.mesh.yaml` of each kind: changes that its policies make for one proxy, in `<name>.xds.yaml`.
//!
//! `UPDATE=1 cargo test -p kodiak-testkit --test it cases` rewrites the outputs and removes those without an input.
//! Review the result. A real Envoy loads every configuration too.

mod case;
mod changed;
pub(crate) mod loaded;

use std::path::{Path, PathBuf};
use std::{env, fs};

use case::Case;

const INPUT: &str = ".mesh.yaml";
const OUTPUT: &str = ".xds.yaml";
/// Longer cases are not readable.
const LONGEST_INPUT: usize = 60;
const LONGEST_OUTPUT: usize = 200;

#[test]
fn cases_match_their_outputs() {
    let update = env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for folder in folders() {
        for input in files(&folder, INPUT) {
            let output = other(&input, INPUT, OUTPUT);
            let found = match Case::read(&input).and_then(|case| case.changed()) {
                Ok(found) => found,
                Err(error) => {
                    wrong.push(format!("{}: {error}", input.display()));
                    continue;
                }
            };
            if update {
                fs::write(&output, &found).unwrap();
            } else if fs::read_to_string(&output).unwrap_or_default() != found {
                wrong.push(format!("{} should read:\n{found}", output.display()));
            }
            for (path, longest) in [(&input, LONGEST_INPUT), (&output, LONGEST_OUTPUT)] {
                let length = fs::read_to_string(path).unwrap_or_default().lines().count();
                if length > longest {
                    let advice = "say less, or show less of it";
                    wrong.push(format!("{} has {length} lines, more than {longest}: {advice}", path.display()));
                }
            }
        }
        for output in files(&folder, OUTPUT).into_iter().filter(|output| !other(output, OUTPUT, INPUT).exists()) {
            if update {
                fs::remove_file(&output).unwrap();
            } else {
                wrong.push(format!("{} has no input", output.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites them", wrong.join("\n"));
}

#[test]
fn every_policy_in_force_has_a_case() {
    let with_cases: Vec<PathBuf> = folders().into_iter().filter(|folder| !files(folder, INPUT).is_empty()).collect();
    let has_case = |kind: &str| with_cases.iter().any(|folder| folder.ends_with(format!("{}/cases", snake_case(kind))));
    let without: Vec<_> = kodiak_kinds::in_force().iter().filter(|kind| !has_case(kind)).collect();
    assert!(without.is_empty(), "no cases/<name>{INPUT} for {without:?}");
}

/// The folder of a kind: consecutive capitals are one word.
fn snake_case(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::new();
    for (n, letter) in letters.iter().enumerate() {
        let small = |at: Option<&char>| at.is_some_and(char::is_ascii_lowercase);
        let starts = letter.is_ascii_uppercase() && n > 0 && (small(letters.get(n - 1)) || small(letters.get(n + 1)));
        if starts {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// All cases, by path.
fn all() -> Vec<(PathBuf, Case)> {
    let inputs = folders().into_iter().flat_map(|folder| files(&folder, INPUT));
    inputs.map(|input| (input.clone(), Case::read(&input).unwrap())).collect()
}

/// The case folders of all kinds, sorted.
fn folders() -> Vec<PathBuf> {
    // Tests run in the folder of their crate.
    let crates = Path::new("../..");
    let kinds = ["core/kodiak-model/src/kinds", "core/kodiak-policies/src"].into_iter();
    let mut folders: Vec<_> = kinds.flat_map(|kinds| entries(&crates.join(kinds))).collect();
    folders.sort();
    folders.into_iter().map(|folder| folder.join("cases")).collect()
}

/// Files of a folder with this suffix, sorted.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        entries(folder).into_iter().filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default()
}

/// The file of the same case with another suffix.
fn other(path: &Path, ending: &str, with: &str) -> PathBuf {
    let path = path.to_string_lossy();
    PathBuf::from(format!("{}{with}", path.strip_suffix(ending).expect("files are found by their endings")))
}
