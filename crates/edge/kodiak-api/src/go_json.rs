//! Errors of Go's JSON decoder, word for word: clients of Kuma's API match on them.

/// Go's error for `text`, which `serde_json` refused with `error`.
pub(crate) fn syntax_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return if text.iter().all(u8::is_ascii_whitespace) { "EOF" } else { "unexpected end of JSON input" }
            .to_owned();
    }
    match first_fault(text) {
        Some(fault) => fault,
        None => error.to_string(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    /// After `{`: a key or `}`.
    FirstKey,
    Key,
    Colon,
    /// After a value inside an object or an array.
    AfterValue,
    /// After `[`: a value or `]`.
    FirstItem,
    End,
}

/// Reads tokens up to the first unexpected one.
fn first_fault(text: &[u8]) -> Option<String> {
    let mut expect = Expect::Value;
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let mut next = at + 1;
        expect = match (expect, byte) {
            (Expect::Value | Expect::FirstItem, b'{') => {
                open.push(b'{');
                Expect::FirstKey
            }
            (Expect::Value | Expect::FirstItem, b'[') => {
                open.push(b'[');
                Expect::FirstItem
            }
            (Expect::FirstItem | Expect::AfterValue, b']') if open.last() == Some(&b'[') => after_close(&mut open),
            (Expect::FirstKey | Expect::AfterValue, b'}') if open.last() == Some(&b'{') => after_close(&mut open),
            (Expect::FirstKey | Expect::Key, b'"') => {
                next = end_of_string(text, at)?;
                Expect::Colon
            }
            (Expect::AfterValue, b',') if open.last() == Some(&b'{') => Expect::Key,
            (Expect::AfterValue, b',') | (Expect::Colon, b':') => Expect::Value,
            (Expect::Value | Expect::FirstItem, b'"') => {
                next = end_of_string(text, at)?;
                after_value(&open)
            }
            (Expect::Value | Expect::FirstItem, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                next = end_of_word(text, at);
                after_value(&open)
            }
            (expect, byte) => {
                return Some(format!("invalid character {} {}", quoted(byte), looking_for(expect, &open)));
            }
        };
        at = next;
    }
    None
}

fn after_close(open: &mut Vec<u8>) -> Expect {
    open.pop();
    after_value(open)
}

fn after_value(open: &[u8]) -> Expect {
    if open.is_empty() { Expect::End } else { Expect::AfterValue }
}

fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn end_of_word(text: &[u8], start: usize) -> usize {
    let word = text[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)).count();
    start + word.max(1)
}

fn looking_for(expect: Expect, open: &[u8]) -> &'static str {
    match expect {
        Expect::Value | Expect::FirstItem => "looking for beginning of value",
        Expect::FirstKey | Expect::Key => "looking for beginning of object key string",
        Expect::Colon => "after object key",
        Expect::AfterValue if open.last() == Some(&b'{') => "after object key:value pair",
        Expect::AfterValue => "after array element",
        Expect::End => "after top-level value",
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ if byte.is_ascii() => format!("'{}'", byte.escape_ascii()),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::syntax_error;

    #[test]
    fn syntax_errors_equal_those_of_go() {
        for (text, message) in [
            ("{,\n}", "invalid character ',' looking for beginning of object key string"),
            ("", "EOF"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("<a>", "invalid character '<' looking for beginning of value"),
            (r#"{"a":}"#, "invalid character '}' looking for beginning of value"),
        ] {
            let error = serde_json::from_slice::<serde_json::Value>(text.as_bytes()).unwrap_err();
            assert_eq!(syntax_error(text.as_bytes(), &error), message, "{text}");
        }
    }
}
