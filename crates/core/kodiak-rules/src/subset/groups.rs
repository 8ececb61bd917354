//! Groups of compatible pieces.
//!
//! Two pieces are compatible unless they require different values of a tag. A group is a maximal set of compatible
//! pieces: a maximal clique, found with the Bron–Kerbosch algorithm and Tomita's pivot. There may be exponentially
//! many, so the search stops as soon as there are too many.

use std::collections::BTreeMap;

use super::pieces::Tags;

/// Of tags, over all groups: this many rules are still usable.
pub(super) const MOST_COMBINATIONS: usize = 10_000;

/// Memory words read in a search. Only reached by searches with many dead ends.
const MOST_WORK: usize = 50_000_000;

/// The tags of all pieces of a group. In a group, a tag has one value.
pub(super) type Group = Tags;

/// In Kuma's order; the error is a lower bound of the number of combinations.
pub(super) fn groups(pieces: &[&Tags]) -> Result<Vec<Group>, usize> {
    // Equal pieces are always in the same groups.
    let mut places: BTreeMap<&Tags, Vec<usize>> = BTreeMap::new();
    for (place, tags) in pieces.iter().enumerate() {
        places.entry(*tags).or_default().push(place);
    }
    let nodes: Vec<&Tags> = places.keys().copied().collect();
    let places: Vec<&Vec<usize>> = places.values().collect();
    let mut groups: Vec<(String, Group)> = Vec::new();
    for clique in cliques(&nodes)? {
        let mut members: Vec<usize> = clique.iter().flat_map(|node| places[*node]).copied().collect();
        members.sort_unstable();
        let text: Vec<String> = members.iter().map(usize::to_string).collect();
        groups.push((text.join(":"), union(&nodes, &clique)));
    }
    groups.sort_by(|(a, _), (b, _)| b.cmp(a));
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// A lower bound of the number of combinations, if there are too many.
pub(super) fn too_many(pieces: &[&Tags]) -> Option<usize> {
    let mut nodes = pieces.to_vec();
    nodes.sort_unstable();
    nodes.dedup();
    cliques(&nodes).err()
}

/// State of the search: candidates, excluded nodes, and nodes to try next.
struct Frame {
    open: Bits,
    done: Bits,
    next: Vec<usize>,
}

/// `nodes` are distinct.
fn cliques(nodes: &[&Tags]) -> Result<Vec<Vec<usize>>, usize> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    // The tags of a node are a part of those of its group, and a group with as many parts has as many combinations. So the
    // cost of everything below is bounded, whatever the number of nodes is.
    if nodes.len() > MOST_COMBINATIONS {
        return Err(nodes.len());
    }
    let near = neighbours(nodes);
    let (mut found, mut combinations, mut work) = (Vec::new(), 0_usize, 0_usize);
    let (mut clique, mut stack) = (Vec::new(), Vec::new());
    stack.push(frame(Bits::all(nodes.len()), Bits::none(nodes.len()), &near, &mut work));
    while let Some(top) = stack.last_mut() {
        if work > MOST_WORK {
            return Err(combinations.max(MOST_COMBINATIONS + 1));
        }
        let Some(node) = top.next.pop() else {
            stack.pop();
            clique.pop();
            continue;
        };
        let (open, done) = (top.open.and(&near[node]), top.done.and(&near[node]));
        top.open.remove(node);
        top.done.insert(node);
        clique.push(node);
        if open.is_empty() && done.is_empty() {
            combinations = combinations.saturating_add(doublings(union(nodes, &clique).len()));
            if combinations > MOST_COMBINATIONS {
                return Err(combinations);
            }
            found.push(clique.clone());
        }
        stack.push(frame(open, done, &near, &mut work));
    }
    Ok(found)
}

/// Neighbours of the pivot are found in the branches of the others.
fn frame(open: Bits, done: Bits, near: &[Bits], work: &mut usize) -> Frame {
    let all = open.count();
    let mut best: Option<(usize, usize)> = None;
    for node in open.iter().chain(done.iter()) {
        *work += open.0.len();
        let count = open.and(&near[node]).count();
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, node));
        }
        if count + 1 >= all {
            break;
        }
    }
    let next = best.map_or_else(Vec::new, |(_, pivot)| open.without(&near[pivot]).iter().collect());
    Frame { open, done, next }
}

/// All nodes except those with another value of one of its tags, and itself.
fn neighbours(nodes: &[&Tags]) -> Vec<Bits> {
    let mut by_key: BTreeMap<&str, (Bits, BTreeMap<&str, Bits>)> = BTreeMap::new();
    let none = || Bits::none(nodes.len());
    for (node, tags) in nodes.iter().enumerate() {
        for (key, value) in *tags {
            let (all, by_value) = by_key.entry(key).or_insert_with(|| (none(), BTreeMap::new()));
            all.insert(node);
            by_value.entry(value).or_insert_with(none).insert(node);
        }
    }
    let of = |(node, tags): (usize, &&Tags)| {
        let mut near = Bits::all(nodes.len());
        near.remove(node);
        for (key, value) in *tags {
            let (all, by_value) = &by_key[key.as_str()];
            near = near.without(&all.without(&by_value[value.as_str()]));
        }
        near
    };
    nodes.iter().enumerate().map(of).collect()
}

fn union(nodes: &[&Tags], clique: &[usize]) -> Tags {
    clique.iter().flat_map(|node| nodes[*node].clone()).collect()
}

/// Every tag is present or not.
fn doublings(tags: usize) -> usize {
    u32::try_from(tags).ok().and_then(|tags| 1_usize.checked_shl(tags)).unwrap_or(usize::MAX)
}

/// A set of nodes.
#[derive(Clone)]
struct Bits(Vec<u64>);

impl Bits {
    fn none(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    fn all(nodes: usize) -> Self {
        let mut bits = Self::none(nodes);
        (0..nodes).for_each(|node| bits.insert(node));
        bits
    }

    fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    fn remove(&mut self, node: usize) {
        self.0[node / 64] &= !(1 << (node % 64));
    }

    fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    fn without(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let of_word = |(n, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| n * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compatible(a: &Tags, b: &Tags) -> bool {
        a.iter().all(|(key, value)| b.get(key).is_none_or(|other| other == value))
    }

    /// Naive evaluation over all sets of nodes.
    fn naive(nodes: &[&Tags]) -> Vec<Vec<usize>> {
        let fits = |set: usize, node: usize| {
            (0..nodes.len()).all(|other| set >> other & 1 == 0 || compatible(nodes[node], nodes[other]))
        };
        let mut found = Vec::new();
        for set in 1..1_usize << nodes.len() {
            // A maximal clique contains exactly the nodes that are compatible with it.
            if (0..nodes.len()).all(|node| fits(set, node) == (set >> node & 1 == 1)) {
                found.push((0..nodes.len()).filter(|node| set >> node & 1 == 1).collect());
            }
        }
        found
    }

    fn tags() -> impl Strategy<Value = Tags> {
        let tag = ("[abc]", "[12]");
        prop::collection::btree_map(tag.0, tag.1, 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn finds_all_maximal_groups(nodes in prop::collection::btree_set(tags(), 0..9)) {
            let nodes: Vec<&Tags> = nodes.iter().collect();
            let mut found = cliques(&nodes).unwrap();
            for clique in &mut found {
                clique.sort_unstable();
            }
            found.sort();
            let mut expected = naive(&nodes);
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
