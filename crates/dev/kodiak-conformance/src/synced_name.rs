//! Names of resources that were synced from another control plane.

use kodiak_model::{Labels, labels};

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The original name with a hash of its mesh, zone and namespace: 16 hexadecimal digits, as letters that form no words.
pub(crate) fn synced_name(mesh: &str, display_name: &str, labels: &Labels) -> String {
    let from = [labels::ZONE, labels::NAMESPACE].map(|key| labels.get(key).map_or("", String::as_str));
    let text = [&[mesh, display_name][..], &from].concat().concat();
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let letter = |c: u8| char::from(LETTERS[usize::from(c) % LETTERS.len()]);
    format!("{display_name}-{}", format!("{hash:016x}").bytes().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in sixteen hashes starts with a zero.
    #[test]
    fn leading_zeros_are_kept() {
        for n in 0..200 {
            let name = synced_name("default", &format!("policy{n}"), &Labels::new());
            assert_eq!(name.split_once('-').unwrap().1.len(), 16, "{name}");
        }
    }
}
