//! Which operations a load is made of.

use std::{fmt, str::FromStr};

use super::data::Random;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// One row by its id.
    Point,
    /// Count and sum of the rows that two conditions select.
    Filter,
    /// Counts and sums by kind.
    Group,
    /// Count and sum of the events of some users.
    SemiJoin,
    /// A few rows, committed.
    Write,
    /// Counts and sums by user and kind, of which the first few are wanted: long, as all rows are read into many groups.
    Heavy,
}

impl Operation {
    pub(super) const ALL: [Self; 6] =
        [Self::Point, Self::Filter, Self::Group, Self::SemiJoin, Self::Write, Self::Heavy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Filter => "filter",
            Self::Group => "group",
            Self::SemiJoin => "semi-join",
            Self::Write => "write",
            Self::Heavy => "heavy",
        }
    }
}

/// Operations by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [u32; Operation::ALL.len()],
}

impl Mix {
    /// The operations that occur.
    pub(super) fn operations(&self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().zip(self.weights).filter(|(_, weight)| *weight > 0).map(|(o, _)| o)
    }

    /// One of them, by chance.
    pub(super) fn pick(&self, random: &mut Random) -> Operation {
        let total: u64 = self.weights.iter().map(|w| u64::from(*w)).sum();
        let mut at = random.below(total);
        for (operation, weight) in Operation::ALL.into_iter().zip(self.weights) {
            match at.checked_sub(u64::from(weight)) {
                Some(rest) => at = rest,
                None => return operation,
            }
        }
        Operation::Point
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self { weights: [50, 30, 10, 5, 5, 0] }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (operation, weight) in Operation::ALL.into_iter().zip(self.weights).filter(|(_, w)| *w > 0) {
            write!(f, "{comma}{}={weight}", operation.name())?;
            comma = ",";
        }
        Ok(())
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights = [0; Operation::ALL.len()];
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let known = Operation::ALL.into_iter().zip(&mut weights).find(|(o, _)| o.name() == name.trim());
            let Some((_, place)) = known else {
                return Err(format!("{name:?} is not one of point, filter, group, semi-join, write, heavy"));
            };
            *place = weight.trim().parse().map_err(|_| format!("{weight:?} is not a weight"))?;
        }
        if weights.iter().all(|w| *w == 0) {
            return Err("every weight is 0".to_owned());
        }
        Ok(Self { weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_and_written() {
        let mix: Mix = "write=2, filter=3,point".parse().unwrap();
        assert_eq!(mix.to_string(), "point=1,filter=3,write=2");
        assert_eq!(mix.operations().count(), 3);
        assert_eq!(Mix::default().to_string().parse(), Ok(Mix::default()));
        for (wrong, word) in [("scan=1", "scan"), ("point=x", "\"x\""), ("point=0", "0"), ("", "\"\"")] {
            assert!(wrong.parse::<Mix>().unwrap_err().contains(word), "{wrong}");
        }
    }

    #[test]
    fn picks_by_weight() {
        let mix: Mix = "filter=3,write=1".parse().unwrap();
        let mut random = Random::new(7);
        let writes = (0..4000).filter(|_| mix.pick(&mut random) == Operation::Write).count();
        assert!((800..1200).contains(&writes), "{writes}");
        assert_eq!("group".parse::<Mix>().unwrap().pick(&mut random), Operation::Group);
    }
}
