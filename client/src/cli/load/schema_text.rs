//! Schemas as people write them: `a int32, b decimal(12,2) not null, c int64 references t(k)`.

use arrow_schema::{Field, Schema};

use crate::{
    convert::REFERENCES_KEY,
    types::{parse_type, type_name},
};

/// Reads a schema; columns are separated by commas or line breaks and nullable unless `not null`.
pub(crate) fn parse(text: &str) -> Result<Schema, String> {
    let fields = split(text).into_iter().map(field).collect::<Result<Vec<_>, _>>()?;
    if fields.is_empty() {
        return Err("--schema names no columns".to_owned());
    }
    Ok(Schema::new(fields))
}

/// A column as [`parse`] reads it.
pub(crate) fn of_field(field: &Field) -> String {
    let name = field.name();
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let name = if is_plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
    let null = if field.is_nullable() { "" } else { " not null" };
    format!("{name} {}{null}", type_name(field.data_type()))
}

/// The parts between commas that are not in parentheses, nor in quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted) = (0_u32, false);
    let parts = text.split(|c| {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => return false,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        matches!(c, ',' | '\n') && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn field(text: &str) -> Result<Field, String> {
    let (name, rest) =
        name(text).ok_or_else(|| format!("--schema: {text:?} needs a type, as in \"{text} int32\""))?;
    let (rest, reference) = match word(rest, "references") {
        Some((before, after)) => (before, Some(self::reference(&name, after)?)),
        None => (rest, None),
    };
    let lower = rest.trim().to_ascii_lowercase();
    let mut words: Vec<_> = lower.split_whitespace().collect();
    let nullable = match words.as_slice() {
        [.., "not", "null"] => {
            words.truncate(words.len() - 2);
            false
        }
        [.., "null"] => {
            words.truncate(words.len() - 1);
            true
        }
        _ => true,
    };
    let type_text = words.concat();
    let data_type =
        parse_type(of_sql(&type_text)).or_else(|| parse_type(&type_text.replacen("numeric", "decimal", 1)));
    let data_type = data_type.ok_or_else(|| {
        format!(
            "--schema: {type_text:?} of column {name} is not a type: bool, int8 to int64, uint8 to uint64, float32, \
             float64, decimal(p,s) with up to 38 digits, date32, time, timestamp, utf8, binary"
        )
    })?;
    let metadata = reference.map(|reference| (REFERENCES_KEY.to_owned(), reference));
    Ok(Field::new(name, data_type, nullable).with_metadata(metadata.into_iter().collect()))
}

/// A type by the name that it has here, of one that SQL has for it.
fn of_sql(text: &str) -> &str {
    match text {
        "boolean" => "bool",
        "tinyint" => "int8",
        "smallint" => "int16",
        "int" | "integer" => "int32",
        "bigint" => "int64",
        "real" => "float32",
        "double" | "doubleprecision" => "float64",
        "text" | "varchar" | "string" => "utf8",
        "date" => "date32",
        "blob" | "bytea" => "binary",
        other => other,
    }
}

/// A column's name, in quotes where it is more than one word, and what stands behind it. Two quotes in quotes are one.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return text.split_once(char::is_whitespace).map(|(name, rest)| (name.to_owned(), rest));
    };
    let mut from = 0;
    let end = loop {
        let at = from + quoted[from..].find('"')?;
        if !quoted[at + 1..].starts_with('"') {
            break at;
        }
        from = at + 2;
    };
    let rest = &quoted[end + 1..];
    rest.starts_with(char::is_whitespace).then(|| (quoted[..end].replace("\"\"", "\""), rest))
}

/// What stands before and behind a word.
fn word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let at = text.to_ascii_lowercase().find(word)?;
    let (before, after) = (&text[..at], &text[at + word.len()..]);
    let parts = before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace);
    parts.then_some((before, after))
}

/// `table(column)` as `table.column`.
fn reference(name: &str, text: &str) -> Result<String, String> {
    let parts = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
    let (table, column) = parts.map(|(table, column)| (table.trim(), column.trim())).unwrap_or_default();
    if table.is_empty() || column.is_empty() {
        let shown = text.trim();
        return Err(format!(
            "--schema: column {name} references {shown:?}, which is not like \"date(d_datekey)\""
        ));
    }
    Ok(format!("{table}.{column}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let schema = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|f| {
                let null = if f.is_nullable() { "null" } else { "not null" };
                let references = f.metadata().get(REFERENCES_KEY).map(|key| format!(" -> {key}"));
                format!("{} {} {null}{}", f.name(), type_name(f.data_type()), references.unwrap_or_default())
            })
            .collect();
        assert_eq!(fields, expected, "{text}");
    }

    #[test]
    fn types_have_the_names_of_sql_too() {
        let text = "a bigint not null, b text, c double precision, d numeric(9, 2), e date, f boolean, g integer, h bytea";
        let ours = "a int64 not null, b utf8, c float64, d decimal(9,2), e date32, f bool, g int32, h binary";
        assert_eq!(parse(text), parse(ours));
    }

    #[test]
    fn schemas() {
        check("a int32", &["a int32 null"]);
        check(
            "a int32, b decimal(12,2) not null,c UTF8 NULL",
            &["a int32 null", "b decimal(12,2) not null", "c utf8 null"],
        );
        check(
            "a int32 not null references Date(d_key), b date32 REFERENCES references ( k )",
            &["a int32 not null -> Date.d_key", "b date32 null -> references.k"],
        );
        check(
            "\"a b, (c)\" time, \"x.\"\"y\"\"\" binary not null",
            &["a b, (c) time null", "x.\"y\" binary not null"],
        );
        check("a decimal ( 4 , 2 )\n b date32 NOT  NULL,\n", &["a decimal(4,2) null", "b date32 not null"]);
    }

    #[test]
    fn a_schema_is_read_as_it_is_written() {
        let text = "a int32, \"b, \"\"c\"\"\" decimal(12,2) not null, d_1 utf8";
        let schema = parse(text).unwrap();
        let written: Vec<_> = schema.fields().iter().map(|field| of_field(field)).collect();
        assert_eq!(written.join(", "), text);
    }

    #[test]
    fn mistakes() {
        for (text, expected) in [
            ("", "--schema names no columns"),
            ("\"a b int32", "--schema: "),
            ("a", "--schema: \"a\" needs a type, as in \"a int32\""),
            ("a money", "--schema: \"money\" of column a is not a type"),
            ("a int32 not", "--schema: \"int32not\" of column a is not a type"),
            (
                "a int32 references t",
                "--schema: column a references \"t\", which is not like \"date(d_datekey)\"",
            ),
            ("a int32 references (k)", "--schema: column a references \"(k)\", which is not like"),
            ("a decimal(39,2)", "--schema: \"decimal(39,2)\" of column a is not a type"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(expected), "{text}: {:?}", parse(text));
        }
    }
}
