//! The reference of kinds: the page in the folder of each kind, and a table of all its fields.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::pages::Generated;
use super::schema;

/// A folder with one folder for each kind, and the page that lists them.
struct Group {
    folder: &'static str,
    list: &'static str,
    title: &'static str,
    introduction: &'static str,
}

const GROUPS: &[Group] = &[
    Group {
        folder: "crates/core/kodiak-policies/src",
        list: "reference/policies.md",
        title: "Policies",
        introduction: "A policy selects proxies with its `targetRef` and changes how they handle traffic. \
                       `kodiak get policies` shows which policies are in force, and why others are not.",
    },
    Group {
        folder: "crates/core/kodiak-model/src/kinds",
        list: "reference/kinds.md",
        title: "Other kinds",
        introduction: "Resources that are not policies: meshes, proxies, services, secrets, zones, and what the control \
                       plane reports about them.",
    },
];

/// Kinds that are no policies and on which the control plane does not act in full, with what is missing.
const PARTLY: &[(&str, &str)] = &[
    ("MeshGateway", "Builtin gateways are matched by policies and inspected, but no listeners are configured."),
    ("MeshOpenTelemetryBackend", "It is stored and validated, but no policy that references it has an effect yet."),
    ("MeshZoneAddress", "It is stored and validated, but several zones are not supported yet."),
    ("ZoneEgress", "Proxies use it as a destination, but the control plane does not configure the zone egress itself."),
    ("ZoneIngress", "It is stored and validated, but the control plane does not configure the zone ingress."),
];

const OPENAPI: &str = "docs/openapi.json";

/// Pages with the page that lists them, lists included.
pub(super) fn pages(root: &Path) -> Result<Vec<(&'static str, Generated)>> {
    let openapi = fs::read_to_string(root.join(OPENAPI)).with_context(|| format!("cannot read {OPENAPI}"))?;
    let openapi: Value = serde_json::from_str(&openapi).with_context(|| format!("cannot read {OPENAPI}"))?;
    let mut pages = Vec::new();
    for group in GROUPS {
        let mut rows = Vec::new();
        for folder in folders(&root.join(group.folder))? {
            let readme = format!("{}/{folder}/README.md", group.folder);
            let text = fs::read_to_string(root.join(&readme)).with_context(|| format!("cannot read {readme}"))?;
            let acts = group.folder.ends_with("kinds") || acts(root, &format!("{}/{folder}", group.folder));
            let page = page(&openapi, group, readme, &text, acts)?;
            rows.push(row(&page, &text, acts));
            pages.push((group.list, page));
        }
        let Group { title, introduction, list, .. } = group;
        let text = format!("# {title}\n\n{introduction}\n\n| kind | |\n|---|---|\n{}", rows.concat());
        pages.push((list, Generated { path: (*list).to_owned(), title: (*title).to_owned(), origin: None, text }));
    }
    Ok(pages)
}

/// Folders that hold folders of kinds, and the page that lists them.
pub(super) fn lists() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.iter().map(|group| (group.folder, group.list))
}

/// Folders of kinds, in the order of their names.
fn folders(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.path().join("README.md").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    if names.is_empty() {
        bail!("{} has no folders with a README.md", folder.display());
    }
    names.sort();
    Ok(names)
}

/// Whether the control plane acts on a policy: the folder then says what it does to Envoy.
fn acts(root: &Path, folder: &str) -> bool {
    root.join(folder).join("envoy.rs").is_file()
}

fn page(openapi: &Value, group: &Group, readme: String, text: &str, acts: bool) -> Result<Generated> {
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    let kind = title.trim_start_matches("# ").trim().to_owned();
    let mut page = format!("# {kind}\n");
    if !acts {
        page.push_str(
            "\n> **Not supported yet.** The control plane stores and validates this policy, but no proxy acts on it. \
             `kodiak get policies` shows it as `not in force` with the reason `NotSupportedYet`.\n",
        );
    }
    if let Some((_, missing)) = PARTLY.iter().find(|(partly, _)| *partly == kind) {
        let _ = write!(page, "\n> **Not supported in full yet.** {missing}\n");
    }
    page.push_str(rest);
    page.push_str("\n## All fields\n\n| field | type | description |\n|---|---|---|\n");
    for field in schema::fields(openapi, &kind).with_context(|| format!("fields of {readme}"))? {
        let required = if field.required { ", required" } else { "" };
        let description = field.description.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | {}{required} | {description} |", field.path, field.type_name);
    }
    let path = format!("{}/{kind}.md", group.list.trim_end_matches(".md"));
    Ok(Generated { path, title: kind, origin: Some(readme), text: page })
}

/// A row of the list: the kind, and the first sentence of its page.
fn row(page: &Generated, readme: &str, acts: bool) -> String {
    let about = readme.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or_default();
    let note = if acts { "" } else { " *Not supported yet.*" };
    let path = page.path.trim_start_matches("reference/");
    format!("| [{}]({path}) | {about}{note} |\n", page.title)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_has_the_text_of_the_folder_and_all_fields() {
        let openapi = json!({"components": {"schemas": {"MeshFoo": {"properties": {"spec": {"type": "object",
            "properties": {"conf": {"type": "string", "description": "A|B"}}}}}}}});
        let text = "# MeshFoo\n\nDoes foo.\n";
        let page = page(&openapi, &GROUPS[0], "x/README.md".to_owned(), text, false).unwrap();
        assert_eq!(page.path, "reference/policies/MeshFoo.md");
        assert!(page.text.starts_with("# MeshFoo\n\n> **Not supported yet.**"), "{}", page.text);
        assert!(page.text.contains("| `conf` | string | A\\|B |"), "{}", page.text);
        assert_eq!(row(&page, text, true), "| [MeshFoo](policies/MeshFoo.md) | Does foo. |\n");
    }

    #[test]
    fn kinds_without_full_support_say_so() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = pages(&root).unwrap();
        for (kind, missing) in PARTLY {
            let page = pages.iter().find(|(_, page)| page.title == *kind).map(|(_, page)| &page.text);
            assert!(page.is_some_and(|text| text.contains(missing)), "{kind}");
        }
    }

    #[test]
    fn every_kind_of_the_repository_has_a_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = pages(&root).unwrap();
        let count = |list| pages.iter().filter(|(of, _)| *of == list).count();
        assert!(count("reference/policies.md") > 10 && count("reference/kinds.md") > 10);
    }
}
