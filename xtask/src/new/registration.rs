//! Registers a folder: by its `pub mod` and an item of the `ALL` list, or by a line of `register!`.

use anyhow::{Context, Result};

use crate::families::{self, Listing, REGISTER};

/// Start of the list of a crate; it ends with `];`.
const LIST: &str = "pub const ALL: &[&Kind] = &[";

/// The file with the module added, in the order of names. Not formatted.
pub(super) fn register(text: &str, module: &str, listing: Listing) -> Result<String> {
    match listing {
        Listing::Items => with_entry(&with_module(text, module)?, module),
        Listing::Register => with_line(text, module),
    }
}

fn with_line(text: &str, module: &str) -> Result<String> {
    let (before, rest) = text.split_once(REGISTER).context("has no `register![`")?;
    let (_, after) = rest.split_once("];").context("has a `register![` without an end")?;
    let mut modules = families::registered(text);
    let at = modules.iter().position(|other| *other > module).unwrap_or(modules.len());
    modules.insert(at, module);
    Ok(format!("{before}{REGISTER}\n    {},\n];{after}", modules.join(",\n    ")))
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

    const ITEMS: &str = "\
//! The kinds.

mod from_to;
pub mod mesh;
pub mod zone;

pub const ALL: &[&Kind] = &[&mesh::KIND, &zone::KIND];
";
    const LINES: &str = "\
//! The policies.

register![
    mesh_access_log,
    mesh_timeout,
];

fn after() {}
";

    fn with_items(text: &str, module: &str) -> String {
        register(text, module, Listing::Items).unwrap()
    }

    #[test]
    fn both_items_are_added_in_order() {
        let middle = with_items(ITEMS, "secret");
        assert!(middle.contains("pub mod mesh;\npub mod secret;\npub mod zone;\n"), "{middle}");
        let list = "&[\n    &mesh::KIND,\n    &secret::KIND,\n    &zone::KIND,\n];\n";
        assert!(middle.ends_with(list), "{middle}");
        let end = with_items(ITEMS, "zoo");
        assert!(end.contains("pub mod zone;\npub mod zoo;\n\n"), "{end}");
        assert!(end.ends_with("    &zone::KIND,\n    &zoo::KIND,\n];\n"), "{end}");
    }

    #[test]
    fn multi_line_list_is_extended() {
        let file = ITEMS.replace("[&mesh::", "[\n    &mesh::").replace("zone::KIND];", "zone::KIND,\n];");
        assert_eq!(with_items(&file, "secret"), with_items(ITEMS, "secret"));
    }

    #[test]
    fn macro_gets_one_line() {
        let with_line = |module: &str| register(LINES, module, Listing::Register).unwrap();
        for (module, before) in
            [("mesh_a", "[\n"), ("mesh_foo", "mesh_access_log,\n"), ("mesh_zebra", "mesh_timeout,\n")]
        {
            let text = with_line(module);
            assert!(text.contains(&format!("{before}    {module},\n")), "{text}");
            assert_eq!(text.replace(&format!("    {module},\n"), ""), LINES);
        }
    }

    #[test]
    fn rejects_a_file_without_the_list() {
        let refusal = |text, listing| register(text, "mesh_foo", listing).unwrap_err().to_string();
        assert!(refusal("pub mod a;\n", Listing::Items).contains("has no `pub const ALL"));
        assert!(refusal("", Listing::Items).contains("has no `pub mod` line"));
        assert_eq!(refusal(ITEMS, Listing::Register), "has no `register![`");
        assert_eq!(refusal("\nregister![\n", Listing::Register), "has a `register![` without an end");
    }
}
