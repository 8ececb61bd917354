//! "Did you mean": the most similar of the existing names.

/// The candidate with the smallest edit distance to the typed text, if the distance is small enough.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()).collect();
    // Two swapped letters are two replacements; in a very short word that would be nearly all of it.
    let near_enough = if typed.len() < 4 { 1 } else { (typed.len() / 3).clamp(2, 4) };
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Longer names are truncated for the comparison.
const LONGEST: usize = 64;

/// Case-insensitive edit distance: insertions, deletions and replacements.
fn distance(typed: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=typed.len()).collect();
    for (i, c) in candidate.chars().take(LONGEST).enumerate() {
        let mut above_left = std::mem::replace(&mut row[0], i + 1);
        for (j, t) in typed.iter().enumerate() {
            let replaced = above_left + usize::from(c.to_ascii_lowercase() != *t);
            above_left = row[j + 1];
            row[j + 1] = replaced.min(above_left + 1).min(row[j] + 1);
        }
    }
    row[typed.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_names_for_typing_errors() {
        let kinds = ["Mesh", "MeshTimeout", "MeshRetry", "Dataplane"];
        for (typed, meant) in [
            ("MeshTimout", Some("MeshTimeout")),
            ("meshtimeout", Some("MeshTimeout")),
            ("Mseh", Some("Mesh")),
            ("DataPlan", Some("Dataplane")),
            ("Pod", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, kinds), meant, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), kinds), None);
    }
}
