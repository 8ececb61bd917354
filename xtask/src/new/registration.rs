//! The two lines that make a folder known: its `pub mod`, and its place in the `ALL` list.

use anyhow::{Context, Result};

/// How the list of a crate begins; it ends with `];`.
const LIST: &str = "pub const ALL: &[&Kind] = &[";

/// The file with both lines added, in the order of names. Not formatted.
pub(super) fn register(text: &str, module: &str) -> Result<String> {
    with_entry(&with_module(text, module)?, module)
}

fn with_module(text: &str, module: &str) -> Result<String> {
    let declared =
        |line: &str| line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')).map(str::to_owned);
    let mut lines: Vec<&str> = text.lines().collect();
    let later = lines.iter().position(|line| declared(line).is_some_and(|other| other.as_str() > module));
    let last = || lines.iter().rposition(|line| declared(line).is_some()).map(|index| index + 1);
    let at = later.or_else(last).context("has no `pub mod` line to put another one beside")?;
    let line = format!("pub mod {module};");
    lines.insert(at, &line);
    Ok(lines.join("\n") + "\n")
}

fn with_entry(text: &str, module: &str) -> Result<String> {
    let (before, rest) = text.split_once(LIST).with_context(|| format!("has no `{LIST}`"))?;
    let (list, after) = rest.split_once("];").context("has an `ALL` list without an end")?;
    let mut entries: Vec<String> =
        list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
    let new = format!("&{module}::KIND");
    let at = entries.iter().position(|entry| *entry > new).unwrap_or(entries.len());
    entries.insert(at, new);
    Ok(format!("{before}{LIST}\n    {},\n];{after}", entries.join(",\n    ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
//! The policies.

mod from_to;
pub mod mesh_access_log;
pub mod mesh_timeout;

pub const ALL: &[&Kind] = &[&mesh_access_log::KIND, &mesh_timeout::KIND];
";

    #[test]
    fn both_lines_are_added_in_order() {
        let middle = register(FILE, "mesh_foo").unwrap();
        assert!(middle.contains("pub mod mesh_access_log;\npub mod mesh_foo;\npub mod mesh_timeout;\n"), "{middle}");
        let list = "&[\n    &mesh_access_log::KIND,\n    &mesh_foo::KIND,\n    &mesh_timeout::KIND,\n];\n";
        assert!(middle.ends_with(list), "{middle}");
        let end = register(FILE, "mesh_zebra").unwrap();
        assert!(end.contains("pub mod mesh_timeout;\npub mod mesh_zebra;\n\n"), "{end}");
        assert!(end.ends_with("    &mesh_timeout::KIND,\n    &mesh_zebra::KIND,\n];\n"), "{end}");
    }

    #[test]
    fn a_list_over_several_lines_is_understood() {
        let file = FILE.replace("[&mesh_access_log", "[\n    &mesh_access_log").replace("KIND];", "KIND,\n];");
        assert_eq!(register(&file, "mesh_foo").unwrap(), register(FILE, "mesh_foo").unwrap());
    }

    #[test]
    fn a_file_without_the_list_is_refused() {
        assert!(register("pub mod a;\n", "mesh_foo").unwrap_err().to_string().contains("has no `pub const ALL"));
        assert!(register("", "mesh_foo").is_err());
    }
}
