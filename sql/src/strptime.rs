//! Timestamps by formats of `strptime`: each text is read by the first of its formats that fits it, as DuckDB reads it. What
//! a format does not say is that of 1900-01-01.

use crate::{
    calendar::{Moment, days_in, days_of},
    error::{Error, Result},
};

/// A format, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<Item>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// A character that stands there.
    Literal(char),
    /// Spaces, one at least.
    Space,
    Field(char),
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// What is read so far.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// A week of the year, which begins on a Sunday.
    week_of_sundays: Option<i64>,
    week_of_mondays: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    /// From Sunday, 0.
    weekday: Option<i64>,
    hour: Option<i64>,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    /// Seconds east of UTC.
    offset: i64,
}

impl Format {
    pub(crate) fn new(format: &str) -> Result<Self> {
        let mut items = Vec::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c.is_whitespace() {
                if items.last() != Some(&Item::Space) {
                    items.push(Item::Space);
                }
                continue;
            }
            if c != '%' {
                items.push(Item::Literal(c));
                continue;
            }
            let mut field = chars.next();
            if field == Some('-') {
                // Reading, it changes nothing.
                field = chars.next();
            }
            match field {
                Some('%') => items.push(Item::Literal('%')),
                Some(
                    field @ ('a' | 'A' | 'b' | 'h' | 'B' | 'd' | 'm' | 'y' | 'Y' | 'H' | 'I' | 'p' | 'M'
                    | 'S' | 'f' | 'g' | 'j' | 'U' | 'W' | 'V' | 'G' | 'u' | 'w' | 'z' | 'Z'),
                ) => items.push(Item::Field(field)),
                Some('T' | 'X') => items.extend("H:M:S".chars().map(|c| match c {
                    ':' => Item::Literal(':'),
                    field => Item::Field(field),
                })),
                Some(other) => return Err(Error::unsupported(format!("%{other} in a format"))),
                None => return Err(Error::invalid("a format ends with %")),
            }
        }
        if items.is_empty() {
            return Err(Error::invalid("an empty format"));
        }
        let has = |field: char| items.contains(&Item::Field(field));
        let weeks = [has('U'), has('W'), has('V')].into_iter().filter(|has| *has).count();
        if weeks > 1
            || has('G') && (has('Y') || has('y') || has('j'))
            || has('V') && (has('Y') || has('y')) && !has('d')
        {
            return Err(Error::invalid(format!("{format:?}: weeks of two kinds")));
        }
        Ok(Self(items))
    }

    /// Whether a text of it says where its time is one.
    pub(crate) fn has_zone(&self) -> bool {
        self.0.iter().any(|item| matches!(item, Item::Field('z' | 'Z')))
    }

    /// Microseconds since 1970; `None`: the text is not of the format.
    pub(crate) fn read(&self, text: &str) -> Option<i64> {
        let mut rest = text.trim_start();
        let mut fields = Fields::default();
        for (at, item) in self.0.iter().enumerate() {
            match item {
                Item::Literal(c) => rest = rest.strip_prefix(*c)?,
                Item::Space => {
                    let trimmed = rest.trim_start();
                    if trimmed.len() == rest.len() && at > 0 {
                        return None;
                    }
                    rest = trimmed;
                }
                Item::Field(field) => rest = fields.take(*field, rest)?,
            }
        }
        if rest.trim_start().is_empty() { fields.moment() } else { None }
    }
}

/// A number of so many digits at most, and what is behind it.
fn number(text: &str, digits: usize) -> Option<(i64, usize, &str)> {
    let length = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    Some((number.parse().ok()?, length, rest))
}

/// Which of these names a text begins with, as a whole or by its first letters.
fn named<'a>(text: &'a str, names: &[&str], letters: Option<usize>) -> Option<(i64, &'a str)> {
    names.iter().zip(0..).find_map(|(name, at)| {
        let name = letters.map_or(*name, |letters| &name[..letters]);
        let begins = text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        begins.then(|| (at, &text[name.len()..]))
    })
}

impl Fields {
    /// Takes a field from the begin of a text; what is left.
    fn take<'a>(&mut self, field: char, text: &'a str) -> Option<&'a str> {
        let digits = match field {
            'a' | 'A' => {
                // It is read, and says nothing.
                let (_, rest) = named(text, &DAYS, (field == 'a').then_some(3))?;
                return Some(rest);
            }
            'b' | 'h' | 'B' => {
                let (month, rest) = named(text, &MONTHS, (field != 'B').then_some(3))?;
                self.month = Some(month + 1);
                return Some(rest);
            }
            'p' => {
                let (half, rest) = named(text, &["am", "pm"], None)?;
                self.is_afternoon = Some(half == 1);
                return Some(rest);
            }
            'z' => return self.zone(text),
            'Z' => {
                let (_, rest) = named(text, &["utc", "gmt"], None)?;
                return Some(rest);
            }
            'f' => 6,
            'Y' | 'G' => 4,
            'j' | 'g' => 3,
            'u' | 'w' => 1,
            _ => 2,
        };
        let (value, length, rest) = number(text, digits)?;
        let within = |range: std::ops::RangeInclusive<i64>| range.contains(&value).then_some(value);
        match field {
            'd' => self.day = Some(within(1..=31)?),
            'm' => self.month = Some(within(1..=12)?),
            'y' => self.year = Some(if value < 69 { 2000 + value } else { 1900 + value }),
            'Y' => self.year = Some(value),
            'H' => self.hour = Some(within(0..=23)?),
            'I' => self.hour = Some(within(1..=12)? % 12),
            'M' => self.minute = within(0..=59)?,
            'S' => self.second = within(0..=59)?,
            'f' => self.micros = value * 10_i64.pow(u32::try_from(6 - length).ok()?),
            'g' => self.micros = 1000 * value * 10_i64.pow(u32::try_from(3 - length).ok()?),
            'j' => self.day_of_year = Some(within(1..=366)?),
            'U' => self.week_of_sundays = Some(within(0..=53)?),
            'W' => self.week_of_mondays = Some(within(0..=53)?),
            'V' => self.iso_week = Some(within(1..=53)?),
            'G' => self.iso_year = Some(value),
            'w' => self.weekday = Some(within(0..=6)?),
            'u' => self.weekday = Some(within(1..=7)? % 7),
            _ => return None,
        }
        Some(rest)
    }

    /// `+01`, `-0130` or `+01:30`.
    fn zone<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let sign = match text.chars().next()? {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        let two = |text: &'a str| number(text, 2).filter(|(_, length, _)| *length == 2);
        let (hours, _, mut rest) = two(&text[1..])?;
        let mut minutes = 0;
        if let Some((value, _, behind)) = two(rest.strip_prefix(':').unwrap_or(rest)) {
            (minutes, rest) = (value, behind);
        }
        self.offset = sign * (hours * 3600 + minutes * 60);
        (minutes < 60).then_some(rest)
    }

    fn moment(self) -> Option<i64> {
        let year = self.year.unwrap_or(1900);
        let days = if self.day.is_some() || self.month.is_some() {
            let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
            if day > days_in(year, month) {
                return None;
            }
            days_of(year, month, day)
        } else if let Some(week) = self.iso_week {
            let first = days_of(self.iso_year.unwrap_or(1900), 1, 4);
            let monday = first - (first + 3).rem_euclid(7);
            // From Monday, 0.
            monday + 7 * (week - 1) + (self.weekday.unwrap_or(1) + 6) % 7
        } else if let Some(day) = self.day_of_year {
            days_of(year, 1, 1) + day - 1
        } else if let Some(week) = self.week_of_sundays {
            let first = days_of(year, 1, 1);
            // 1970-01-01 was a Thursday.
            let sunday = first + (3 - first).rem_euclid(7);
            sunday + 7 * (week - 1) + self.weekday.unwrap_or(0)
        } else if let Some(week) = self.week_of_mondays {
            let first = days_of(year, 1, 1);
            let monday = first + (4 - first).rem_euclid(7);
            monday + 7 * (week - 1) + (self.weekday.unwrap_or(1) + 6) % 7
        } else {
            days_of(self.iso_year.unwrap_or(year), 1, 1)
        };
        let hour = match (self.hour, self.is_afternoon) {
            (hour, None) => hour.unwrap_or(0),
            (Some(hour), Some(true)) => hour % 12 + 12,
            (Some(hour), Some(false)) => hour % 12,
            (None, Some(afternoon)) => {
                if afternoon {
                    12
                } else {
                    0
                }
            }
        };
        let seconds = days * 86_400 + hour * 3600 + self.minute * 60 + self.second - self.offset;
        Some(Moment(seconds * 1_000_000 + self.micros).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_their_formats() {
        let read = |text: &str, format: &str| {
            let micros = Format::new(format).unwrap().read(text)?;
            Some(basalt_core::time::format_timestamp(micros))
        };
        let cases = [
            ("6", "%w", Some("1900-01-01")),
            ("30", "%U", Some("1900-07-29")),
            ("1", "%U", Some("1900-01-07")),
            ("30", "%W", Some("1900-07-23")),
            ("1", "%V", Some("1900-01-01")),
            ("1-4", "%U-%w", Some("1900-01-11")),
            ("2-4", "%V-%u", Some("1900-01-11")),
            ("1-4", "%W-%w", Some("1900-01-04")),
            ("2021-05-12 19-4", "%Y-%m-%d %U-%w", Some("2021-05-12")),
            ("2021-0-5", "%Y-%U-%w", Some("2021-01-01")),
            ("2021-53-5", "%G-%V-%u", Some("2022-01-07")),
            ("366 2021", "%j %Y", Some("2022-01-01")),
            ("2020  12", "%Y %m", Some("2020-12-01")),
            ("  2020 12  ", "%Y %m", Some("2020-12-01")),
            ("202012", "%Y %m", None),
            ("2020-02-30", "%Y-%m-%d", None),
            ("Mon 30, June 2003, 12:03:10 AM", "%a %d, %B %Y, %I:%M:%S %p", Some("2003-06-30 00:03:10")),
            ("2020 +01:30", "%Y %z", Some("2019-12-31 22:30:00")),
            ("2020 +1", "%Y %z", None),
            ("12345", "%Y", None),
            ("69", "%y", Some("1969-01-01")),
            (".5", ".%f", Some("1900-01-01 00:00:00.5")),
            ("24", "%H", None),
        ];
        for (text, format, expected) in cases {
            let read = read(text, format);
            let read =
                read.map(|read| read.trim_end_matches("Z").trim_end_matches("00:00:00").trim().to_owned());
            let matches = match (&read, expected) {
                (Some(read), Some(expected)) => read.replace('T', " ").trim().starts_with(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(matches, "{text} {format}: {read:?}, not {expected:?}");
        }
        assert!(Format::new("%Q").is_err());
        assert!(Format::new("").is_err());
    }
}
