//! "Did you mean": the nearest of the names that exist.

/// The candidate that differs least from what was typed, if it is near enough to have been meant.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()).collect();
    // Two letters in the wrong order are two replacements; in a very short word that would be nearly all of it.
    let near_enough = if typed.len() < 4 { 1 } else { (typed.len() / 3).clamp(2, 4) };
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min()
        .map(|(_, candidate)| candidate)
}

/// More of a name is not compared.
const LONGEST: usize = 64;

/// Insertions, deletions and replacements between two names, in any case of letters.
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
    fn typing_errors_are_understood() {
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
