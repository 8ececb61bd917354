//! Builds rules from pieces.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::policy::{Conf, ConfShape};

use super::{
    Rule, Tag,
    groups::{Group, groups},
    pieces::{Piece, Tags},
};
use crate::{Policy, merge, route_hash, routes};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Negations {
    Always,
    /// Not when all pieces are about one tag: then the order of the rules is enough.
    WhereNeeded,
}

/// The error is a lower bound of the number of combinations, when there are too many.
pub(super) fn rules(pieces: &[Piece], shape: ConfShape, negations: Negations) -> Result<Vec<Rule>, usize> {
    let index = TagIndex::new(pieces);
    let mut rules = Vec::new();
    if negations == Negations::WhereNeeded && is_plain(pieces) {
        let mut seen = BTreeSet::new();
        for piece in pieces.iter().filter(|piece| seen.insert(&piece.tags)) {
            let subset: Vec<Tag> = piece.tags.iter().map(|(key, value)| tag(key, value, false)).collect();
            rules.extend(index.rules(&piece.tags, &subset, shape));
        }
    } else {
        let tags: Vec<&Tags> = pieces.iter().map(|piece| &piece.tags).collect();
        for group in groups(&tags)? {
            for chosen in combinations(&group) {
                let as_tag = |(key, value): (&String, &String)| tag(key, value, !chosen.contains_key(key));
                let subset: Vec<Tag> = group.iter().map(as_tag).collect();
                rules.extend(index.rules(&chosen, &subset, shape));
            }
        }
    }
    rules.sort_by_key(|rule| Reverse(rule.subset.iter().filter(|tag| !tag.not).count()));
    Ok(rules)
}

/// Rule of all pieces that match these tags; the subset has those of the tags that any of them names.
pub(super) fn at(pieces: &[Piece], shape: ConfShape, tags: &[(&str, &str)]) -> Vec<Rule> {
    let tags: Tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let index = TagIndex::new(pieces);
    let named: BTreeMap<&String, &String> = index.about(&tags).into_iter().flat_map(|piece| &piece.tags).collect();
    let subset: Vec<Tag> = named.into_iter().map(|(key, value)| tag(key, value, false)).collect();
    index.rules(&tags, &subset, shape)
}

/// Whether combinations of tags can be skipped.
pub(super) fn is_plain(pieces: &[Piece]) -> bool {
    pieces.iter().flat_map(|piece| piece.tags.keys()).collect::<BTreeSet<_>>().len() <= 1
}

fn tag(key: &str, value: &str, not: bool) -> Tag {
    Tag { key: key.to_owned(), value: value.to_owned(), not }
}

/// All subsets of the tags. The first tag changes fastest, and the full set comes last.
fn combinations(group: &Group) -> impl Iterator<Item = Tags> {
    let count: usize = 1 << group.len();
    (1..=count).map(move |n| {
        let chosen = group.iter().enumerate().filter(|(place, _)| n >> place & 1 == 0);
        chosen.map(|(_, (key, value))| (key.clone(), value.clone())).collect()
    })
}

/// Pieces indexed by one of their tags, to find those that match a set of tags.
struct TagIndex<'a> {
    pieces: &'a [Piece],
    everywhere: Vec<usize>,
    by_tag: BTreeMap<(&'a String, &'a String), Vec<usize>>,
}

impl<'a> TagIndex<'a> {
    fn new(pieces: &'a [Piece]) -> Self {
        let mut index = Self { pieces, everywhere: Vec::new(), by_tag: BTreeMap::new() };
        for (place, piece) in pieces.iter().enumerate() {
            match piece.tags.iter().next() {
                None => index.everywhere.push(place),
                Some(tag) => index.by_tag.entry(tag).or_default().push(place),
            }
        }
        index
    }

    /// Empty without matching pieces; several for routes with hostnames.
    fn rules(&self, chosen: &Tags, subset: &[Tag], shape: ConfShape) -> Vec<Rule> {
        let pieces = self.about(chosen);
        if pieces.is_empty() {
            return Vec::new();
        }
        let mut origins: Vec<Arc<Policy>> = Vec::new();
        let mut by_matches = BTreeMap::new();
        for Piece { conf, policy, .. } in &pieces {
            if !origins.iter().any(|known| Arc::ptr_eq(known, policy)) {
                origins.push(policy.clone());
            }
            if shape == ConfShape::Routes {
                by_matches.extend(routes::matches(conf).map(|matches| (route_hash(matches), policy.clone())));
            }
        }
        let rule = |conf: Conf| Rule {
            subset: subset.to_vec(),
            conf,
            origins: origins.clone(),
            by_matches: by_matches.clone(),
        };
        merge::merge(shape, pieces.iter().map(|piece| &piece.conf)).into_iter().map(rule).collect()
    }

    /// In order.
    fn about(&self, chosen: &Tags) -> Vec<&'a Piece> {
        let index = chosen.iter().filter_map(|tag| self.by_tag.get(&tag)).chain([&self.everywhere]);
        let mut places: Vec<usize> = index.flatten().copied().collect();
        places.retain(|place| self.pieces[*place].tags.iter().all(|(key, value)| chosen.get(key) == Some(value)));
        places.sort_unstable();
        places.into_iter().map(|place| &self.pieces[place]).collect()
    }
}
