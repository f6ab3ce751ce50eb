//! What a path leads to in a JSON text. A text is read once, from its beginning to its end, and nothing is made of what lies
//! beside the path.

use std::{collections::VecDeque, fmt};

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    error::{Error, Result},
    limits,
};

type StdResult<T, E> = std::result::Result<T, E>;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of a key; of several the first.
    Key(String),
    /// The value at a place of an array, from 0.
    Place(usize),
    /// The one at a place from the end, of which 1 is the last.
    FromEnd(usize),
    /// Of an object that key, of an array the place that it says, if it is a number.
    Either(String, Option<i64>),
}

impl Step {
    /// The place that a whole number says: a negative one counts from the end.
    pub(super) fn place(number: i64) -> Self {
        let places = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
        if number < 0 { Self::FromEnd(places) } else { Self::Place(places) }
    }

    pub(super) fn either(text: &str) -> Self {
        Self::Either(text.to_owned(), text.parse().ok())
    }
}

/// The steps of a path: `$.key[0]."another key"[-1]` or `/key/0`, or a key alone.
///
/// # Errors
/// It begins as a path, and is none; it has too many steps.
pub(super) fn steps(path: &str) -> Result<Vec<Step>> {
    let steps = match path.as_bytes().first() {
        Some(b'$') => of_dollar(path)?,
        Some(b'/') => {
            let part = |part: &str| Step::either(&part.replace("~1", "/").replace("~0", "~"));
            path.split('/').skip(1).map(part).collect()
        }
        _ => vec![Step::Key(path.to_owned())],
    };
    checked(steps)
}

/// The steps of `{key,0}`, as PostgreSQL's `#>` takes them.
pub(super) fn of_braces(path: &str) -> Result<Vec<Step>> {
    let inner = path.strip_prefix('{').and_then(|path| path.strip_suffix('}'));
    let inner = inner.ok_or_else(|| Error::invalid(format!("{path:?} is not a path such as {{key,0}}")))?;
    let part = |part: &str| Step::either(part.trim().trim_matches('"'));
    checked(if inner.trim().is_empty() { Vec::new() } else { inner.split(',').map(part).collect() })
}

fn checked(steps: Vec<Step>) -> Result<Vec<Step>> {
    match steps.len() > limits::JSON_STEPS {
        true => Err(Error::invalid(format!(
            "a path of {} steps; the limit is {}",
            steps.len(),
            limits::JSON_STEPS
        ))),
        false => Ok(steps),
    }
}

fn of_dollar(path: &str) -> Result<Vec<Step>> {
    let wrong = |what: &str| Error::invalid(format!("{path:?} is not a path such as $.key[0]: {what}"));
    let mut rest = &path[1..];
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let (key, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(|| wrong("a quote is not closed"))?,
                None => after.split_at(after.find(['.', '[']).unwrap_or(after.len())),
            };
            if key == "*" || key.is_empty() {
                return Err(wrong(if key.is_empty() { "a key is empty" } else { "* is not supported" }));
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (place, after) = after.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
            // SQLite's places from the end.
            let place = place.trim().trim_start_matches('#');
            let quoted = place.strip_prefix(['"', '\'']).and_then(|key| key.strip_suffix(['"', '\'']));
            steps.push(match (quoted, place.parse()) {
                (Some(key), _) => Step::Key(key.to_owned()),
                (None, Ok(number)) => Step::place(number),
                (None, Err(_)) if place == "*" => return Err(wrong("* is not supported")),
                (None, Err(_)) => return Err(wrong("a place is no number")),
            });
            rest = after;
        } else {
            return Err(wrong("a point or a bracket is expected"));
        }
    }
    Ok(steps)
}

/// What a path leads to, as it is written; `None`: nothing is there.
///
/// # Errors
/// The text is no JSON.
pub(super) fn find<'j>(json: &'j str, steps: &[Step]) -> serde_json::Result<Option<&'j str>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let found = Find(steps).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found.map(RawValue::get))
}

struct Find<'s>(&'s [Step]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> StdResult<Self::Value, D::Error> {
        match self.0 {
            [] => <&RawValue>::deserialize(reader).map(Some),
            _ => reader.deserialize_any(self),
        }
    }
}

/// Values that have no parts.
macro_rules! nothing_in {
    ($($name:ident: $of:ty),*) => {
        $(fn $name<E>(self, _: $of) -> StdResult<Self::Value, E> {
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<&'de RawValue>;

    nothing_in!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> StdResult<Self::Value, E> {
        Ok(None)
    }

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> StdResult<Self::Value, A::Error> {
        let (key, rest) = match self.0.split_first() {
            Some((Step::Key(key) | Step::Either(key, _), rest)) => (Some(key.as_str()), rest),
            _ => (None, self.0),
        };
        let (mut found, mut is_found) = (None, false);
        while let Some(is_it) = entries.next_key_seed(Is(key.filter(|_| !is_found)))? {
            match is_it {
                true => (found, is_found) = (entries.next_value_seed(Find(rest))?, true),
                false => _ = entries.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> StdResult<Self::Value, A::Error> {
        let Some((step, rest)) = self.0.split_first() else { return Ok(None) };
        let step = match step {
            Step::Either(_, Some(number)) => &Step::place(*number),
            step => step,
        };
        match step {
            Step::Place(place) => {
                let (mut found, mut at) = (None, 0);
                loop {
                    if at == *place {
                        match values.next_element_seed(Find(rest))? {
                            Some(there) => found = there,
                            None => break,
                        }
                    } else if values.next_element::<IgnoredAny>()?.is_none() {
                        break;
                    }
                    at += 1;
                }
                Ok(found)
            }
            Step::FromEnd(places) => {
                let mut last: VecDeque<&'de RawValue> = VecDeque::new();
                while let Some(value) = values.next_element()? {
                    last.push_back(value);
                    if last.len() > *places {
                        last.pop_front();
                    }
                }
                let there = last.front().filter(|_| last.len() == *places && *places > 0);
                match there {
                    Some(value) => {
                        // It is a part of what has been read.
                        let found =
                            Find(rest).deserialize(&mut serde_json::Deserializer::from_str(value.get()));
                        found.map_err(serde::de::Error::custom)
                    }
                    None => Ok(None),
                }
            }
            Step::Key(_) | Step::Either(..) => {
                while values.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }
        }
    }
}

/// The keys of an object, in their order.
///
/// # Errors
/// The text is no object.
pub(super) fn keys(json: &str) -> serde_json::Result<Vec<String>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let keys = reader.deserialize_map(Keys)?;
    reader.end()?;
    Ok(keys)
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Vec<String>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> StdResult<Self::Value, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, IgnoredAny)) = entries.next_entry()? {
            keys.push(key);
        }
        Ok(keys)
    }
}

/// Whether a key is the one that is looked for.
struct Is<'k>(Option<&'k str>);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> StdResult<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> StdResult<bool, E> {
        Ok(self.0 == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'j>(json: &'j str, path: &str) -> Option<&'j str> {
        find(json, &steps(path).unwrap()).unwrap()
    }

    #[test]
    fn paths_lead_to_what_is_written() {
        let json = r#" {"a": [1, {"b": "x y"}, -2.50e3], "a.b" : null, "é": {"": 7}, "a": 0, "0": "zero"} "#;
        for (path, expected) in [
            ("$", Some(json.trim())),
            ("$.a", Some(r#"[1, {"b": "x y"}, -2.50e3]"#)),
            ("$.a[1].b", Some(r#""x y""#)),
            ("$.a[-1]", Some("-2.50e3")),
            ("$.a[#-3]", Some("1")),
            ("$.a[-4]", None),
            ("$.a[3]", None),
            ("$.a[-2].b", Some(r#""x y""#)),
            (r#"$."a.b""#, Some("null")),
            ("$['a.b']", Some("null")),
            ("a.b", Some("null")),
            ("$.a.b", None),
            ("$[0]", None),
            ("$.é", Some(r#"{"": 7}"#)),
            ("/a/1/b", Some(r#""x y""#)),
            ("/é/", Some("7")),
            ("/0", Some(r#""zero""#)),
            ("/a/01", Some(r#"{"b": "x y"}"#)),
            ("$.a[0].b.c", None),
        ] {
            assert_eq!(at(json, path), expected, "{path}");
        }
        let braces = |path| find(json, &of_braces(path).unwrap()).unwrap();
        assert_eq!((braces("{a, 1,b}"), braces("{}")), (Some(r#""x y""#), Some(json.trim())));
    }

    #[test]
    fn what_is_no_path_or_no_json_is_an_error() {
        for path in ["$a", "$.", "$..a", "$.a[", "$.a[x]", "$.*", "$[*]", "$.\"a"] {
            assert!(steps(path).is_err(), "{path}");
        }
        assert!(steps(&"$[0]".replace("[0]", &"[0]".repeat(limits::JSON_STEPS + 1))).is_err());
        assert!(of_braces("a,b").is_err());
        for json in ["", "{", "{\"a\": 1", "{\"a\": 1} x", "nul", "{'a': 1}", "[1,]", "\"\u{1}\""] {
            assert!(find(json, &steps("$.a").unwrap()).is_err(), "{json}");
            assert!(find(json, &[]).is_err(), "{json}");
        }
        // Deep texts are no danger to the stack.
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(find(&deep, &steps("$[0]").unwrap()).is_ok());
    }
}
