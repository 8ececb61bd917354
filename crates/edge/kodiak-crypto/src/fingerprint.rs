//! Fingerprints of bytes.

use std::{
    fmt::Write as _,
    io::{self, Read},
};

use aws_lc_rs::digest;

/// SHA-256 in hexadecimal.
pub fn fingerprint(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// SHA-256 of everything that a reader has, in hexadecimal.
pub fn fingerprint_of(mut reader: impl Read) -> io::Result<String> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(context.finish().as_ref())),
            Ok(length) => context.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_sha_256() {
        let long = vec![7; 200_000];
        assert_eq!(fingerprint_of(long.as_slice()).unwrap(), fingerprint(&long));
        assert_eq!(fingerprint(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
