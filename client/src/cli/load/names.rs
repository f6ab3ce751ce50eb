//! Names of columns, as the files have them.
//!
//! A name stays as it is, spaces, points and all. One that is empty is that of its position, `column3`; one that another
//! column has already, whatever its case, gets a number: `a`, then `a_2`. Characters that control a terminal become `_`.
//! Where the columns are known, a header that is none of them and would be one with `_` for what no identifier has is
//! that one: `two words` goes to `two_words`. So is the only one that differs in the case of letters, where one header does.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use arrow_schema::{Field, Schema};

/// The names of columns in the order of their headers, and what was renamed, as notes.
pub(super) fn of_headers<'a>(
    headers: impl IntoIterator<Item = &'a str>,
    known: Option<&Schema>,
) -> (Vec<String>, Vec<String>) {
    let is_known = |name: &str| known.is_some_and(|known| known.index_of(name).is_ok());
    let headers: Vec<&str> = headers.into_iter().collect();
    let (mut names, mut notes) = (Vec::<String>::new(), Vec::new());
    let mut taken = BTreeSet::<String>::new();
    for (i, header) in headers.iter().copied().enumerate() {
        let plain = of_header(header, i);
        let identifier = identifier(&plain);
        let name = if is_known(&plain) && !names.contains(&plain) {
            plain
        } else if is_known(&identifier) && !names.contains(&identifier) {
            identifier
        } else if let Some(name) = known.and_then(|known| but_for_case(&plain, known, &headers)) {
            name
        } else if taken.contains(&plain.to_lowercase()) {
            // Among as many names as there are columns one is free.
            let free =
                (2..).map(|n| format!("{plain}_{n}")).find(|name| !taken.contains(&name.to_lowercase()));
            let name = free.unwrap_or(plain);
            notes.push(format!("column {} is named {name:?}: another is named {header:?} already", i + 1));
            name
        } else {
            plain
        };
        taken.insert(name.to_lowercase());
        names.push(name);
    }
    (names, notes)
}

/// The column that a person means by a name, as SQL has it: the one of that name, else the only one that differs in the case
/// of letters alone; `None`: there is none. Of several the error says which.
pub(super) fn named<'a>(name: &str, schema: &'a Schema) -> Result<Option<&'a Arc<Field>>, String> {
    let fields = schema.fields();
    if let Some(field) = fields.iter().find(|field| field.name() == name) {
        return Ok(Some(field));
    }
    let mut alike = fields.iter().filter(|field| field.name().to_lowercase() == name.to_lowercase());
    match (alike.next(), alike.next()) {
        (Some(first), Some(second)) => {
            Err(format!("column {name:?} may be {:?} or {:?}", first.name(), second.name()))
        }
        (only, _) => Ok(only),
    }
}

/// The only known name that is a header but for the case of its letters, where no other header is.
fn but_for_case(header: &str, known: &Schema, headers: &[&str]) -> Option<String> {
    let lower = |name: &str| identifier(name).to_lowercase();
    let is_alike = |name: &str| lower(name) == lower(header);
    let mut alike = known.fields().iter().map(|field| field.name()).filter(|name| is_alike(name));
    let only = alike.next().filter(|_| alike.next().is_none())?;
    (headers.iter().filter(|header| is_alike(header)).count() == 1).then(|| only.clone())
}

/// The name of the column of a JSON key: one that is empty has no position, and is `_`.
pub(super) fn of_json_key(key: &str) -> Cow<'_, str> {
    match key {
        "" => Cow::Borrowed("_"),
        _ if key.contains(char::is_control) => Cow::Owned(of_header(key, 0)),
        _ => Cow::Borrowed(key),
    }
}

/// The name of the column at a position, from 0.
fn of_header(key: &str, position: usize) -> String {
    let name: String = key.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    if name.is_empty() { format!("column{}", position + 1) } else { name }
}

fn identifier(name: &str) -> String {
    let mut name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_numeric()) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    #[track_caller]
    fn check(headers: &[&str], known: &[&str], expected: &[&str]) {
        let fields: Vec<_> = known.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
        let known = (!known.is_empty()).then(|| Schema::new(fields));
        assert_eq!(of_headers(headers.iter().copied(), known.as_ref()).0, expected, "{headers:?}");
    }

    #[test]
    fn a_name_means_one_column() {
        let fields = ["id", "Id", "Name"].map(|name| Field::new(name, DataType::Utf8, true));
        let schema = Schema::new(fields.to_vec());
        let of = |name: &str| named(name, &schema).map(|field| field.map(|field| field.name().as_str()));
        assert_eq!(of("Id"), Ok(Some("Id")));
        assert_eq!(of("NAME"), Ok(Some("Name")));
        assert_eq!(of("nothing"), Ok(None));
        assert_eq!(of("ID"), Err("column \"ID\" may be \"id\" or \"Id\"".to_owned()));
    }

    #[test]
    fn names() {
        check(&["a b", "x.y", "2nd", "ä"], &[], &["a b", "x.y", "2nd", "ä"]);
        check(&["a", "", ""], &[], &["a", "column2", "column3"]);
        check(&["column2", ""], &[], &["column2", "column2_2"]);
        check(&["a", "a", "A", "a_2"], &[], &["a", "a_2", "A_3", "a_2_2"]);
        check(&["a\nb\u{1b}"], &[], &["a_b_"]);
        // Those that are known are found again.
        check(&["a", "A"], &["A", "a"], &["a", "A"]);
        check(&["a", "a"], &["a", "a_2"], &["a", "a_2"]);
        check(&["two words", "2nd"], &["two_words", "_2nd"], &["two_words", "_2nd"]);
        check(&["two words"], &["two words", "two_words"], &["two words"]);
        check(&["ID", "Two Words", "x"], &["id", "two_words", "x"], &["id", "two_words", "x"]);
        check(&["ID", "id"], &["id"], &["ID", "id"]);
        check(&["ID"], &["id", "Id"], &["ID"]);
        check(&["ID", "Id"], &["id"], &["ID", "Id_2"]);
        let (_, notes) = of_headers(["a", "a"], None);
        assert_eq!(notes, ["column 2 is named \"a_2\": another is named \"a\" already"]);
    }
}
