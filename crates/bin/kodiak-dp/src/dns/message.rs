//! DNS messages, as far as they concern us: a question is read, an answer with addresses is written (RFC 1035).
//!
//! What we do not answer is passed on as it came, so nothing else needs to be understood.

use std::net::IpAddr;

/// The longest message that every client takes over UDP.
pub(crate) const UDP_LIMIT: usize = 512;
/// The longest that the length field of a message over TCP can say.
pub(crate) const TCP_LIMIT: usize = 65_535;

pub(crate) const TYPE_A: u16 = 1;
pub(crate) const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

const HEADER: usize = 12;
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: u8 = 63;

/// In the third byte of the header.
const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const TRUNCATED: u8 = 0x02;
const RECURSION_DESIRED: u8 = 0x01;
/// In the fourth.
const RECURSION_AVAILABLE: u8 = 0x80;
const SERVER_FAILURE: u8 = 2;

/// A message with one question about a name on the internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question<'a> {
    /// In small letters, without the dot at the end.
    pub(crate) name: String,
    pub(crate) kind: u16,
    /// The header and the question, as they came.
    head: &'a [u8],
}

impl<'a> Question<'a> {
    /// `None` for everything that a table of names cannot answer.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        let flags = *message.get(2)?;
        if flags & (RESPONSE | OPCODE) != 0 || number(message, 4)? != 1 {
            return None;
        }
        let (name, end) = name(message)?;
        let (kind, class) = (number(message, end)?, number(message, end + 2)?);
        (class == CLASS_IN).then_some(Self { name, kind, head: message.get(..end + 4)? })
    }

    /// The answer that these are the addresses. Where they do not all fit into `limit`, it says that there are more.
    pub(crate) fn answer(&self, addresses: &[IpAddr], ttl: u32, limit: usize) -> Vec<u8> {
        let mut answer = self.head.to_vec();
        let mut count: u16 = 0;
        let mut flags = RESPONSE | AUTHORITATIVE;
        for address in addresses {
            let (kind, bytes) = match address {
                IpAddr::V4(address) => (TYPE_A, address.octets().to_vec()),
                IpAddr::V6(address) => (TYPE_AAAA, address.octets().to_vec()),
            };
            let length = u16::try_from(bytes.len()).expect("an address has 4 or 16 bytes");
            // The name, its type and class, its time to live, and the length of the address.
            if answer.len() + 12 + bytes.len() > limit.min(TCP_LIMIT) {
                flags |= TRUNCATED;
                break;
            }
            // The name is where the question has it: after the header.
            answer.extend([0xc0, 0x0c]);
            answer.extend(kind.to_be_bytes());
            answer.extend(CLASS_IN.to_be_bytes());
            answer.extend(ttl.to_be_bytes());
            answer.extend(length.to_be_bytes());
            answer.extend(bytes);
            count += 1;
        }
        set_header(&mut answer, flags, 0, 1, count);
        answer
    }
}

/// The answer that we could not find out; `None` for what is no request.
pub(crate) fn failure(message: &[u8]) -> Option<Vec<u8>> {
    if message.get(2)? & RESPONSE != 0 {
        return None;
    }
    let (head, questions) = match Question::read(message) {
        Some(question) => (question.head, 1),
        None => (message.get(..HEADER)?, 0),
    };
    let mut answer = head.to_vec();
    set_header(&mut answer, RESPONSE, SERVER_FAILURE, questions, 0);
    Some(answer)
}

/// Whether it is the answer to this request: the same number, and the same question where it repeats one.
pub(crate) fn answers(response: &[u8], request: &[u8]) -> bool {
    let is_response = response.get(2).is_some_and(|flags| flags & RESPONSE != 0);
    let same_number = response.len() >= HEADER && response.get(..2) == request.get(..2);
    let same_question = match (number(response, 4), name(request)) {
        (Some(1), Some((_, end))) => {
            let (asked, repeated) = (request.get(HEADER..end + 4), response.get(HEADER..end + 4));
            asked.zip(repeated).is_some_and(|(asked, repeated)| asked.eq_ignore_ascii_case(repeated))
        }
        // Some servers repeat nothing when they refuse; requests without a question have nothing to compare.
        (Some(0), _) | (_, None) => true,
        (_, Some(_)) => false,
    };
    is_response && same_number && same_question
}

/// `message` has a header.
fn set_header(message: &mut [u8], flags: u8, code: u8, questions: u16, answers: u16) {
    let kept = message[2] & (OPCODE | RECURSION_DESIRED);
    message[2] = flags | kept;
    message[3] = RECURSION_AVAILABLE | code;
    message[4..6].copy_from_slice(&questions.to_be_bytes());
    message[6..8].copy_from_slice(&answers.to_be_bytes());
    message[8..HEADER].fill(0);
}

/// The name of the first question, and where it ends. Names there are never compressed.
fn name(message: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = HEADER;
    loop {
        let length = *message.get(at)?;
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > LONGEST_LABEL {
            return None;
        }
        let label = message.get(at..at + usize::from(length))?;
        at += usize::from(length);
        if at - HEADER > LONGEST_NAME {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        // A dot inside of a label is none between labels; no table has such a name.
        let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'.';
        name.extend(
            label.iter().map(|byte| if plain(byte) { char::from(byte.to_ascii_lowercase()) } else { '\u{fffd}' }),
        );
    }
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes: [u8; 2] = message.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// What a client sends.
    pub(in crate::dns) fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        message
    }

    #[test]
    fn questions_are_read() {
        let message = query("Web.Mesh.Local", TYPE_A);
        let question = Question::read(&message).unwrap();
        assert_eq!((question.name.as_str(), question.kind), ("web.mesh.local", TYPE_A));
        assert_eq!(Question::read(&query("", TYPE_A)).unwrap().name, "");
        let mut with_dot = query("a-b", TYPE_A);
        with_dot[14] = b'.';
        assert_eq!(Question::read(&with_dot).unwrap().name, "a\u{fffd}b");
    }

    #[test]
    fn what_is_no_question_of_ours_is_not_read() {
        let good = query("web", TYPE_A);
        let changed = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            message
        };
        let class = good.len() - 1;
        for (what, message) in [
            ("a response", changed(2, RESPONSE)),
            ("an update", changed(2, 5 << 3)),
            ("no question", changed(5, 0)),
            ("two questions", changed(5, 2)),
            ("a compressed name", changed(12, 0xc0)),
            ("a label beyond the end", changed(12, 60)),
            ("another class", changed(class, 3)),
            ("cut off", good[..class].to_vec()),
            ("nothing", Vec::new()),
        ] {
            assert_eq!(Question::read(&message), None, "{what}");
        }
        let long = query(&["a".repeat(63).as_str(); 5].join("."), TYPE_A);
        assert_eq!(Question::read(&long), None);
    }

    #[test]
    fn an_answer_repeats_the_question_and_has_the_addresses() {
        let message = query("web", TYPE_A);
        let answer = Question::read(&message).unwrap().answer(&[[240, 0, 0, 1].into()], 30, UDP_LIMIT);
        let expected = [
            &[0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
            b"\x03web\0\0\x01\0\x01",
            &[0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 240, 0, 0, 1],
        ];
        assert_eq!(answer, expected.concat());
        assert!(answers(&answer, &message));
        assert!(!answers(&answer, &query("other", TYPE_A)) && !answers(&message, &message));
        assert!(!answers(&answer, &query("web", TYPE_AAAA)));
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_cut() {
        let message = query("web", TYPE_A);
        let many = vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 100];
        let question = Question::read(&message).unwrap();
        let cut = question.answer(&many, 30, UDP_LIMIT);
        assert!(cut.len() <= UDP_LIMIT && cut[2] & TRUNCATED != 0 && number(&cut, 6) == Some(30));
        let whole = question.answer(&many, 30, TCP_LIMIT);
        assert!(whole[2] & TRUNCATED == 0 && number(&whole, 6) == Some(100));
    }

    #[test]
    fn a_failure_is_for_requests_alone() {
        let message = query("web", TYPE_A);
        let failed = failure(&message).unwrap();
        assert_eq!((failed.len(), failed[3] & 0x0f), (message.len(), SERVER_FAILURE));
        assert_eq!(failure(&failed), None);
        assert_eq!(failure(&message[..11]), None);
    }

    proptest! {
        #[test]
        fn no_datagram_panics(message in proptest::collection::vec(any::<u8>(), 0..600), other in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(question) = Question::read(&message) {
                let answer = question.answer(&[[1, 2, 3, 4].into()], 1, UDP_LIMIT);
                prop_assert!(answers(&answer, &message));
            }
            failure(&message);
            answers(&other, &message);
            answers(&message, &other);
        }

        #[test]
        fn no_damaged_question_panics(at in 0_usize..40, byte: u8, cut in 0_usize..40) {
            let mut message = query("web.mesh.local", TYPE_A);
            if let Some(place) = message.get_mut(at) {
                *place = byte;
            }
            message.truncate(message.len().saturating_sub(cut));
            if let Some(question) = Question::read(&message) {
                prop_assert!(answers(&question.answer(&[], 1, UDP_LIMIT), &message));
            }
            failure(&message);
        }
    }
}
