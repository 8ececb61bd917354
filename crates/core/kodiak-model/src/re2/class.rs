//! Character classes and escapes.

use std::iter::Peekable;
use std::str::Chars;

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Reads the class after a `[`.
pub(super) fn bracket(rest: &mut Peekable<Chars<'_>>, no_posix: &mut bool) -> Result<(), String> {
    rest.next_if_eq(&'^');
    let mut first = true;
    loop {
        match rest.peek() {
            None => return Err("missing closing ]".to_owned()),
            Some(']') if !first => {
                rest.next();
                return Ok(());
            }
            Some(_) => (),
        }
        first = false;
        if is_class(rest) {
            rest.next();
            escape(rest)?;
        } else if *no_posix || !posix(rest, no_posix)? {
            range(rest)?;
        }
    }
}

/// `[:alpha:]` within brackets.
fn posix(rest: &mut Peekable<Chars<'_>>, no_posix: &mut bool) -> Result<bool, String> {
    let mut ahead = rest.clone();
    if ahead.next() != Some('[') || ahead.next() != Some(':') {
        return Ok(false);
    }
    let text: String = ahead.collect();
    let Some((name, _)) = text.split_once(":]") else {
        *no_posix = true;
        return Ok(false);
    };
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(format!("invalid character class: [:{name}:]"));
    }
    for _ in 0..name.chars().count() + 4 {
        rest.next();
    }
    Ok(true)
}

/// Whether a class such as `\d` or `\pL` follows, instead of a single character.
fn is_class(rest: &Peekable<Chars<'_>>) -> bool {
    let mut ahead = rest.clone();
    ahead.next() == Some('\\') && matches!(ahead.next(), Some('d' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P'))
}

/// A character, or a range of characters.
fn range(rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    let low = character(rest)?;
    let mut ahead = rest.clone();
    if ahead.next() != Some('-') || ahead.peek().is_none_or(|next| *next == ']') {
        return Ok(());
    }
    rest.next();
    let high = character(rest)?;
    if high < low {
        return Err("invalid character class: the range ends before it begins".to_owned());
    }
    Ok(())
}

fn character(rest: &mut Peekable<Chars<'_>>) -> Result<u32, String> {
    match rest.next() {
        Some('\\') => match escaped(rest)? {
            Escaped::Character(code) => Ok(code),
            Escaped::Class => Err("invalid character class: a range has a class as its end".to_owned()),
        },
        Some(character) => Ok(u32::from(character)),
        None => Err("missing closing ]".to_owned()),
    }
}

/// Reads the escape after a backslash.
pub(super) fn escape(rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    escaped(rest).map(drop)
}

enum Escaped {
    Character(u32),
    Class,
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<Escaped, String> {
    let bad = |escape: &str| Err(format!("invalid escape sequence: \\{escape}"));
    let Some(first) = rest.next() else { return Err("trailing \\".to_owned()) };
    let code = match first {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' => return Ok(Escaped::Class),
        'p' | 'P' => return group(rest).map(|()| Escaped::Class),
        // A single digit would be a back-reference.
        '1'..='7' if !rest.peek().is_some_and(|next| ('0'..='7').contains(next)) => {
            return Err(format!("back-reference \\{first} is not supported"));
        }
        '0'..='7' => octal(first, rest),
        'x' => return hex(rest).map_or_else(|| bad("x"), |code| Ok(Escaped::Character(code))),
        'n' => u32::from('\n'),
        'r' => u32::from('\r'),
        't' => u32::from('\t'),
        'a' => 0x07,
        'f' => 0x0c,
        'v' => 0x0b,
        _ if first.is_ascii() && !first.is_ascii_alphanumeric() => u32::from(first),
        _ => return bad(&first.to_string()),
    };
    Ok(Escaped::Character(code))
}

fn octal(first: char, rest: &mut Peekable<Chars<'_>>) -> u32 {
    let mut code = first.to_digit(8).unwrap_or_default();
    for _ in 0..2 {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(8)) else { break };
        rest.next();
        code = code * 8 + digit;
    }
    code
}

/// `\x7F` or `\x{7F}`, after the `x`.
fn hex(rest: &mut Peekable<Chars<'_>>) -> Option<u32> {
    if rest.next_if_eq(&'{').is_none() {
        let (high, low) = (rest.next()?.to_digit(16)?, rest.next()?.to_digit(16)?);
        return Some(high * 16 + low);
    }
    let (mut code, mut digits) = (0, 0);
    loop {
        let next = rest.next()?;
        match next.to_digit(16) {
            Some(digit) => (code, digits) = (code * 16 + digit, digits + 1),
            None => return (next == '}' && digits > 0).then_some(code),
        }
        if code > u32::from(u8::MAX) {
            return None;
        }
    }
}

/// A Unicode group after `\p`: `L` or `{Greek}`.
fn group(rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    let unknown = |name: &str| Err(format!("invalid character class: there is no group {name:?} in Unicode"));
    let name = match rest.next() {
        None => return unknown(""),
        Some('{') => {
            let mut name = String::new();
            loop {
                match rest.next() {
                    Some('}') => break,
                    Some(character) => name.push(character),
                    None => return unknown(&name),
                }
            }
            name
        }
        Some(letter) => letter.to_string(),
    };
    let plain = name.strip_prefix('^').unwrap_or(&name);
    // The set of scripts depends on the build of RE2; the categories have long been the same.
    let known = match plain.len() {
        1 => matches!(plain, "C" | "L" | "M" | "N" | "P" | "S" | "Z"),
        _ => plain.starts_with(|first: char| first.is_ascii_uppercase()) && plain.chars().all(is_word),
    };
    if known { Ok(()) } else { unknown(&name) }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
