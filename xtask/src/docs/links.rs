//! Links of the rendered book: each relative link leads to a file of it, and each anchor exists.
//!
//! The HTML is read, not the Markdown, because mdBook decides how headings become anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::relative;

/// Copies of all pages in one, and mdBook's own page for addresses that do not exist.
const SKIPPED: &[&str] = &["print.html", "404.html", "toc.html"];

/// Names of links that do not resolve, with the page that has them.
pub(super) fn broken(html: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read(html, html, &mut files)?;
    Ok(broken_in(&files))
}

/// A file of the book. Only pages have tags.
#[derive(Default)]
struct File {
    links: BTreeSet<String>,
    anchors: BTreeSet<String>,
}

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, File>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
            continue;
        }
        let file = if path.extension().is_some_and(|extension| extension == "html") {
            parse(&fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?)
        } else {
            File::default()
        };
        files.insert(relative(root, &path), file);
    }
    Ok(())
}

fn parse(html: &str) -> File {
    let mut file = File::default();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap_or((after, ""));
        rest = after;
        file.links.extend(["href", "src"].iter().filter_map(|attribute| value(tag, attribute)));
        file.anchors.extend(value(tag, "id"));
        // The text of a script is no HTML.
        if tag.starts_with("script") {
            rest = rest.split_once("</script>").map_or("", |(_, after)| after);
        }
    }
    file
}

/// The value of an attribute, with its character references resolved.
fn value(tag: &str, attribute: &str) -> Option<String> {
    let (_, value) = tag.split_once(&format!(" {attribute}=\""))?;
    let value = value.split('"').next()?;
    Some(value.replace("&amp;", "&").replace("&quot;", "\"").replace("&#x27;", "'").replace("&#39;", "'"))
}

fn broken_in(files: &BTreeMap<String, File>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, file) in files.iter().filter(|(name, _)| !SKIPPED.contains(&name.as_str())) {
        for link in file.links.iter().filter(|link| is_relative(link)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { Some(name.clone()) } else { resolve(name, path) };
            match target.as_ref().and_then(|target| files.get(target)) {
                None => broken.push(format!("{name}: `{link}`: no such page")),
                Some(target) if anchor.is_empty() || target.anchors.contains(&decoded(anchor)) => (),
                Some(_) => broken.push(format!("{name}: `{link}`: no such heading")),
            }
        }
    }
    broken
}

fn is_relative(link: &str) -> bool {
    let has_scheme = link.split('/').next().is_some_and(|start| start.contains(':'));
    !link.is_empty() && link != "#" && !link.starts_with("//") && !has_scheme
}

fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('?').next()?.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor with its percent codes resolved.
fn decoded(anchor: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = anchor.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(pages: &[(&str, &str)]) -> Vec<String> {
        broken_in(&pages.iter().map(|(name, html)| ((*name).to_owned(), parse(html))).collect())
    }

    #[test]
    fn links_and_anchors_that_exist_are_silent() {
        let a = "<h2 id=\"one\">1</h2><a href=\"b/c.html#two-%C3%A9\">c</a> <a href=\"#one\"></a> <img src=\"d.svg\">\
                 <a href=\"https://example.org/x#y\"></a><script>let x = '<a href=\"gone.html\">';</script>";
        assert_eq!(
            book(&[("a.html", a), ("b/c.html", "<h1 id=\"two-é\"><a href=\"../a.html\">a</a>"), ("d.svg", "")]),
            [""; 0]
        );
    }

    #[test]
    fn pages_and_headings_that_do_not_exist_are_found() {
        let a = "<a class=\"x\" href=\"gone.html\"></a><a href=\"b.html#gone\"></a><a href=\"../out.html\"></a>";
        assert_eq!(
            book(&[("a.html", a), ("b.html", "")]),
            [
                "a.html: `../out.html`: no such page",
                "a.html: `b.html#gone`: no such heading",
                "a.html: `gone.html`: no such page",
            ]
        );
    }
}
