//! Texts that become lists, and parts of texts by number.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, StringArray,
    builder::{ListBuilder, StringBuilder},
    cast::AsArray as _,
    types::Int64Type,
};
use arrow_schema::DataType;
use datafusion::{arrow::compute::cast, common::Result};

use super::gather::{self, span};
use crate::{bounded, error::Error, functions::cast_to_texts};

/// How many characters a text has.
pub(super) fn length(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast_to_texts(array)?;
    let length = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Ok(Arc::new(texts.iter().map(|text| text.map(length)).collect::<arrow_array::Int64Array>()))
}

/// Parts of texts between separators. A text without a separator is one part; an empty separator parts all characters;
/// `part` does it by any other.
fn parted(
    args: &[ArrayRef],
    rows: usize,
    mut part: impl FnMut(&str, &str, &mut StringBuilder) -> Result<()>,
) -> Result<ArrayRef> {
    let (texts, separators) = (cast_to_texts(&args[0])?, cast_to_texts(&args[1])?);
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        if texts.is_null(row) {
            lists.append_null();
            continue;
        }
        let (text, parts) = (texts.value(row), lists.values());
        match separators.is_valid(row).then(|| separators.value(row)) {
            None => parts.append_value(text),
            Some("") if text.is_empty() => parts.append_value(text),
            Some("") => text.chars().for_each(|c| parts.append_value(c.encode_utf8(&mut [0; 4]))),
            Some(separator) => part(text, separator, parts)?,
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

pub(super) fn split(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    parted(args, rows, |text, separator, parts| {
        text.split(separator).for_each(|part| parts.append_value(part));
        Ok(())
    })
}

/// Regular expressions, of which that of the row before is kept.
#[derive(Default)]
struct Regexes(Option<(String, regex::Regex)>);

impl Regexes {
    fn of(&mut self, pattern: &str) -> Result<&regex::Regex> {
        if self.0.as_ref().is_none_or(|(known, _)| known != pattern) {
            let regex = regex::Regex::new(pattern);
            let regex = regex.map_err(|error| Error::invalid(format!("no regular expression: {error}")))?;
            self.0 = Some((pattern.to_owned(), regex));
        }
        let known = self.0.as_ref().map(|(_, regex)| regex);
        known.ok_or_else(|| Error::Internal("a regular expression".to_owned()).into())
    }
}

pub(super) fn split_regex(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let mut regexes = Regexes::default();
    parted(args, rows, |text, pattern, parts| {
        let regex = regexes.of(pattern)?;
        if regex.is_match("") {
            return Err(Error::unsupported("a separator that may be empty").into());
        }
        regex.split(text).for_each(|part| parts.append_value(part));
        Ok(())
    })
}

/// The values of a list in one text. What is NULL is left out, unless the third argument stands for it.
pub(super) fn joined(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if args[0].data_type().is_string() {
        // What catalogs of PostgreSQL have for a list is text already.
        return Ok(Arc::new(cast_to_texts(&args[0])?));
    }
    if args[0].data_type().is_null() {
        return Ok(arrow_array::new_null_array(&DataType::Utf8, rows));
    }
    let list = super::as_list(&args[0])?;
    let values = crate::functions::texts(list.values())?;
    let separators = args.get(1).map(cast_to_texts).transpose()?;
    let missing = args.get(2).map(cast_to_texts).transpose()?;
    let mut made = 0;
    let of_row = |row: usize| {
        if list.is_null(row) {
            return Ok(None);
        }
        let missing =
            missing.as_ref().filter(|missing| missing.is_valid(row)).map(|missing| missing.value(row));
        let parts = span(&list, row).filter_map(|at| match values.is_valid(at) {
            true => Some(values.value(at)),
            false => missing,
        });
        let separators = separators.as_ref().filter(|separators| separators.is_valid(row));
        let separator = separators.map_or(",", |separators| separators.value(row));
        let mut text = String::new();
        for (number, part) in parts.enumerate() {
            let before = if number > 0 { separator } else { "" };
            bounded::add(&mut made, before.len() + part.len(), "array_to_string")?;
            text.push_str(before);
            text.push_str(part);
        }
        Ok(Some(text))
    };
    Ok(Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?))
}

/// What a regular expression, or a group of it, matches, one after the other; a group that has no part in a match is NULL.
pub(super) fn extract_all(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, patterns) = (cast_to_texts(&args[0])?, cast_to_texts(&args[1])?);
    let groups = args.get(2).map(|groups| cast(groups, &DataType::Int64)).transpose()?;
    let groups = groups.as_ref().map(|groups| groups.as_primitive::<Int64Type>());
    let mut lists = ListBuilder::new(StringBuilder::new());
    let mut regexes = Regexes::default();
    for row in 0..rows {
        if texts.is_null(row) || patterns.is_null(row) || groups.is_some_and(|groups| groups.is_null(row)) {
            lists.append_null();
            continue;
        }
        let regex = regexes.of(patterns.value(row))?;
        let group = groups.map_or(0, |groups| groups.value(row));
        let group = usize::try_from(group).ok().filter(|group| *group < regex.captures_len());
        if let Some(group) = group {
            let text = texts.value(row);
            let mut from = 0;
            // What is empty may stand right behind another match.
            while let Some(found) = regex.captures_at(text, from) {
                lists.values().append_option(found.get(group).map(|found| found.as_str()));
                let Some(whole) = found.get(0) else { break };
                from = whole.end();
                if whole.is_empty() {
                    match text[from..].chars().next() {
                        Some(c) => from += c.len_utf8(),
                        None => break,
                    }
                }
            }
        } else if groups.is_some_and(|groups| groups.value(row) > 0) {
            return Err(Error::invalid("the regular expression has no such group").into());
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// The groups of each match, as structs.
pub(super) fn extract_named(args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let Some(DataType::Struct(fields)) = super::item(data_type) else {
        return Err(Error::Internal("a list of structs".to_owned()).into());
    };
    let (texts, patterns) = (cast_to_texts(&args[0])?, cast_to_texts(&args[1])?);
    let options = args.get(3).map(cast_to_texts).transpose()?;
    let mut columns: Vec<Vec<Option<&str>>> = vec![Vec::new(); fields.len()];
    let (mut lengths, mut valid) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut regexes = Regexes::default();
    for row in 0..rows {
        let is_there = texts.is_valid(row);
        valid.push(is_there);
        if !is_there {
            lengths.push(0);
            continue;
        }
        if patterns.is_null(row) {
            return Err(Error::invalid("names of groups take a pattern").into());
        }
        let insensitive = match options.as_ref().map(|options| options.value(row)) {
            None | Some("" | "c") => "",
            Some("i") => "(?i)",
            Some(_) => return Err(Error::unsupported("options other than i and c").into()),
        };
        let regex = regexes.of(&format!("{insensitive}{}", patterns.value(row)))?;
        if regex.captures_len() <= fields.len() {
            return Err(Error::invalid("the regular expression has fewer groups than names").into());
        }
        let text = texts.value(row);
        let (mut from, mut number) = (0, 0);
        while let Some(found) = regex.captures_at(text, from) {
            for (at, column) in columns.iter_mut().enumerate() {
                column.push(found.get(at + 1).map(|found| found.as_str()));
            }
            number += 1;
            let Some(whole) = found.get(0) else { break };
            from = whole.end();
            if whole.is_empty() {
                match text[from..].chars().next() {
                    Some(c) => from += c.len_utf8(),
                    None => break,
                }
            }
        }
        lengths.push(number);
    }
    let total: usize = lengths.iter().sum();
    let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect();
    let structs = arrow_array::StructArray::try_new_with_length(fields, columns, None, total)?;
    gather::lists(Arc::new(structs), lengths, valid)
}

/// One character of a text, or those from one number to another.
pub(super) fn part(args: &[ArrayRef], rows: usize, is_one: bool) -> Result<ArrayRef> {
    let texts = cast_to_texts(&args[0])?;
    let numbers = args[1..].iter().map(|numbers| cast(numbers, &DataType::Int64));
    let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>()?;
    let of_row = |row: usize| {
        if texts.is_null(row) || numbers.iter().any(|numbers| numbers.is_null(row)) {
            return None;
        }
        let text = texts.value(row);
        let number = |at: usize| numbers[at].as_primitive::<Int64Type>().value(row);
        let length = text.chars().count();
        let part = match is_one {
            true => gather::place(number(0), length).map_or(0..0, |place| place..place + 1),
            false => gather::part(number(0), number(1), length),
        };
        Some(text.chars().skip(part.start).take(part.len()).collect::<String>())
    };
    Ok(Arc::new((0..rows).map(of_row).collect::<StringArray>()))
}
