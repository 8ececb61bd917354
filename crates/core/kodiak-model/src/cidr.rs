//! IPv4 range, such as `241.0.0.0/8`.

use std::{fmt, net::Ipv4Addr, str::FromStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: Ipv4Addr,
    /// Prefix length: at most 32.
    length: u8,
}

/// Invalid range, with a correction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CidrError {
    NoLength(String),
    Address(String),
    Length(String),
    Inside { written: Ipv4Addr, range: Cidr },
}

impl Cidr {
    pub fn new(first: Ipv4Addr, length: u8) -> Result<Self, CidrError> {
        let mask = mask(length).ok_or_else(|| CidrError::Length(length.to_string()))?;
        let range = Self { first: Ipv4Addr::from_bits(first.to_bits() & mask), length };
        if range.first != first {
            return Err(CidrError::Inside { written: first, range });
        }
        Ok(range)
    }

    pub fn first(self) -> Ipv4Addr {
        self.first
    }

    /// Prefix length: at most 32.
    pub fn length(self) -> u8 {
        self.length
    }

    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first.to_bits() | !mask(self.length).expect("`new` made sure of it"))
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        (self.first()..=self.last()).contains(&address)
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }
}

/// Netmask. `None` when the prefix length is too large.
fn mask(length: u8) -> Option<u32> {
    let free = 32_u8.checked_sub(length)?;
    Some(u32::MAX.checked_shl(free.into()).unwrap_or(0))
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, length) = text.split_once('/').ok_or_else(|| CidrError::NoLength(text.to_owned()))?;
        let address = address.parse().map_err(|_| CidrError::Address(address.to_owned()))?;
        Self::new(address, length.parse().map_err(|_| CidrError::Length(length.to_owned()))?)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, length } = self;
        write!(f, "{first}/{length}")
    }
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLength(text) => write!(f, "{text:?} has no length: write an address and a length, as 241.0.0.0/8"),
            Self::Address(text) => write!(f, "{text:?} is not an IPv4 address, as 241.0.0.0"),
            Self::Length(text) => write!(f, "{text:?} is not a length: write a number from 0 to 32"),
            Self::Inside { written, range } => {
                write!(f, "{written} is not where a range of this length begins: write {range}")
            }
        }
    }
}

impl std::error::Error for CidrError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_round_trips() {
        for (text, last) in
            [("241.0.0.0/8", "241.255.255.255"), ("10.1.2.4/30", "10.1.2.7"), ("0.0.0.0/0", "255.255.255.255")]
        {
            let range: Cidr = text.parse().unwrap();
            assert_eq!((range.to_string().as_str(), range.last().to_string().as_str()), (text, last));
        }
        let one: Cidr = "10.0.0.1/32".parse().unwrap();
        assert_eq!(one.first(), one.last());
    }

    #[test]
    fn error_has_a_correction() {
        for (text, expected) in [
            ("241.0.0.0", r#""241.0.0.0" has no length: write an address and a length, as 241.0.0.0/8"#),
            ("241.0.0/8", r#""241.0.0" is not an IPv4 address, as 241.0.0.0"#),
            ("fd00::/8", r#""fd00::" is not an IPv4 address, as 241.0.0.0"#),
            ("241.0.0.0/33", r#""33" is not a length: write a number from 0 to 32"#),
            ("241.0.0.0/-1", r#""-1" is not a length: write a number from 0 to 32"#),
            ("241.0.0.0/", r#""" is not a length: write a number from 0 to 32"#),
            ("241.1.0.0/8", "241.1.0.0 is not where a range of this length begins: write 241.0.0.0/8"),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn ranges_overlap_when_one_is_in_the_other() {
        let overlaps = |one: &str, other: &str| {
            let (one, other): (Cidr, Cidr) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(one.overlaps(other), other.overlaps(one));
            one.overlaps(other)
        };
        assert!(overlaps("241.0.0.0/8", "241.0.0.0/8"));
        assert!(overlaps("240.0.0.0/4", "241.7.0.0/16"));
        assert!(!overlaps("241.0.0.0/8", "242.0.0.0/8"));
    }
}
