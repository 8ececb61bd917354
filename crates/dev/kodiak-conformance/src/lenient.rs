//! Lenient YAML for recorded inputs: of duplicate keys the last one wins.

use kodiak_model::yaml::{self, Document, YamlError};

const TWICE: &str = " is written twice";

pub(crate) fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut lines: Vec<&str> = text.lines().collect();
    loop {
        match yaml::parse(&lines.join("\n")) {
            Err(error) if error.message.ends_with(TWICE) && forget_earlier(&mut lines, error.mark.line) => (),
            read => return read,
        }
    }
}

/// Removes the key that the given line (from 1) repeats, with everything below it. Returns whether there was one.
fn forget_earlier(lines: &mut Vec<&str>, line: usize) -> bool {
    let Some((before, again)) = lines.get(..line).and_then(|lines| lines.split_last()).map(|(last, all)| (all, *last))
    else {
        return false;
    };
    let key = |line: &str| line.trim_start().split_once(':').map(|(key, _)| key.to_owned());
    let same = |line: &&str| indent(line) == indent(again) && key(line) == key(again);
    let Some(first) = before.iter().rposition(same) else { return false };
    let below = before[first + 1..].iter().take_while(|line| indent(line) > indent(again)).count();
    lines.drain(first..=first + below);
    true
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn last_of_duplicate_keys_wins() {
        let text = "a:\n  b: 1\n  c:\n    d: 1\n  c:\n    e: 2\n  f: 3\na: 4\n---\na: 5\n";
        let values: Vec<_> = parse(text).unwrap().into_iter().map(|document| document.value).collect();
        assert_eq!(values, [json!({ "a": 4 }), json!({ "a": 5 })]);
        let inner = parse("a:\n  c:\n    d: 1\n  c:\n    e: 2\n").unwrap();
        assert_eq!(inner[0].value, json!({ "a": { "c": { "e": 2 } } }));
        assert!(parse("a: [").is_err());
        assert!(parse("{ a: 1, a: 2 }").is_err(), "there is no line to forget");
    }
}
