//! `--replace` without `--schema`: a table's columns keep their types where the values of the files fit, so that a file which
//! is shorter or rounder today than it was yesterday does not change the table.

use std::{collections::BTreeSet, sync::Arc};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{
    FileFormat,
    source::{self, Job},
};
use crate::{cli::CliError, types::type_name};

/// Columns as they are to be, and those of them whose values must be seen first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) schema: SchemaRef,
    pub(super) uncertain: BTreeSet<String>,
}

/// The columns that were found in files, with the names and types of those that a table has; `but` keeps what was found for
/// some. Where the columns are the same, they are in the table's order. Files may be found to have no rows.
pub(super) fn kept(
    existing: &Schema,
    (found, is_empty): (&Schema, bool),
    by_case: bool,
    but: &BTreeSet<String>,
) -> Kept {
    let mut uncertain = BTreeSet::new();
    let fields = found.fields().iter().map(|field| {
        let Some(own) = same(existing, found, by_case, field) else { return Arc::clone(field) };
        // Of a file without rows every column may have nulls, for nobody knows better.
        let is_nullable = own.is_nullable() || (field.is_nullable() && !is_empty);
        let own = own.clone().with_nullable(is_nullable);
        if but.contains(own.name()) {
            return Arc::new(own.with_data_type(field.data_type().clone()));
        }
        if !holds(own.data_type(), field.data_type()) {
            uncertain.insert(own.name().clone());
        }
        Arc::new(own)
    });
    let mut fields: Vec<Arc<Field>> = fields.collect();
    let place = |field: &Arc<Field>| existing.index_of(field.name()).ok();
    if fields.len() == existing.fields().len() && fields.iter().all(|field| place(field).is_some()) {
        fields.sort_by_key(place);
    }
    Kept { schema: Arc::new(Schema::new(fields)), uncertain }
}

/// The column of a table that a file's column is: by its name, or, of files whose columns are found so, by the only one that
/// differs in case alone.
fn same<'a>(existing: &'a Schema, found: &Schema, by_case: bool, field: &Field) -> Option<&'a Field> {
    if let Ok(own) = existing.field_with_name(field.name()) {
        return Some(own);
    }
    if !by_case {
        return None;
    }
    let alike = |schema: &'a Schema| -> Vec<&'a Field> {
        let fields = schema.fields().iter().map(AsRef::as_ref);
        fields.filter(|other: &&Field| other.name().to_lowercase() == field.name().to_lowercase()).collect()
    };
    let twice =
        found.fields().iter().filter(|f| f.name().to_lowercase() == field.name().to_lowercase()).count() > 1;
    match alike(existing).as_slice() {
        [only] if !twice => Some(only),
        _ => None,
    }
}

/// Whether a type holds every value that is of another one.
fn holds(own: &DataType, found: &DataType) -> bool {
    use DataType as T;
    let bits = |t: &T| t.primitive_width().unwrap_or(0) * 8;
    match (own, found) {
        (own, found) if own == found => true,
        // A text is what is written.
        (T::Utf8, _) => true,
        (own, found) if own.is_integer() && found.is_integer() => {
            match (own.is_signed_integer(), found.is_signed_integer()) {
                (true, true) | (false, false) => bits(own) >= bits(found),
                (true, false) => bits(own) > bits(found),
                (false, true) => false,
            }
        }
        (T::Float64, T::Int32 | T::Float32) | (T::Timestamp(..), T::Date32) => true,
        _ => false,
    }
}

/// What is loaded in place of a table: `job`, by the columns that the table has where the values fit. `bad` counts the rows of a
/// job that are not of its types, or says nothing where they are more than may be. `None`: there is nothing to keep.
pub(super) async fn in_place_of(
    existing: &Schema,
    job: &Job,
    mut bad: impl AsyncFnMut(Job) -> Result<Option<usize>, CliError>,
) -> Result<Option<Job>, CliError> {
    let of_texts = |format| matches!(format, FileFormat::Csv | FileFormat::Json);
    if !job.files.iter().all(|file| of_texts(file.format)) {
        // Their types are said, not found.
        return Ok(None);
    }
    let mut changed = BTreeSet::new();
    // In JSON a key is its column's name.
    let by_case = job.files.iter().all(|file| file.format == FileFormat::Csv);
    let Kept { schema, uncertain } = kept(existing, (&job.schema, job.is_empty), by_case, &changed);
    if schema == job.schema {
        return Ok(None);
    }
    let by = |schema: SchemaRef, columns: Option<Vec<String>>| {
        let mut options = job.options.clone();
        let named = |name: String| match schema
            .fields()
            .iter()
            .find(|f| f.name().to_lowercase() == name.to_lowercase())
        {
            Some(field) if by_case && schema.index_of(&name).is_err() => field.name().clone(),
            _ => name,
        };
        let all = options.columns.take().map(|names| names.into_iter().map(named).collect());
        options.columns = columns.or(all);
        source::plan(job.files.clone(), Some(schema), false, options, job.max_bad, &|_| Ok(()))
    };
    let mut planned = by(Arc::clone(&schema), None)?;
    // What is bad whatever the types are is no matter of theirs.
    let least = if uncertain.is_empty() || job.max_bad == 0 { Some(0) } else { bad(job.clone()).await? };
    if !uncertain.is_empty() && bad(planned.clone()).await? != least {
        for name in uncertain {
            let alone = Arc::new(Schema::new(vec![schema.field_with_name(&name).cloned().map_err(lost)?]));
            if bad(by(alone, Some(vec![name.clone()]))?).await?.is_none_or(|n| Some(n) > least) {
                changed.insert(name);
            }
        }
        planned = by(kept(existing, (&job.schema, job.is_empty), by_case, &changed).schema, None)?;
    }
    planned.notes.clone_from(&job.notes);
    planned.left_out.clone_from(&job.left_out);
    planned.notes.extend(notes(existing, &job.schema, by_case, &planned.schema));
    Ok(Some(planned))
}

fn lost(error: arrow_schema::ArrowError) -> CliError {
    CliError::input(format!("the columns of the files: {error}"))
}

/// What of the columns is as the table has it, and what is not.
fn notes(existing: &Schema, found: &Schema, by_case: bool, planned: &Schema) -> Vec<String> {
    let (mut as_before, mut others) = (Vec::new(), Vec::new());
    for field in found.fields() {
        let Some(own) = same(existing, found, by_case, field) else { continue };
        let Ok(new) = planned.field_with_name(own.name()) else { continue };
        let (own_type, new_type) = (type_name(own.data_type()), type_name(new.data_type()));
        if own_type != new_type {
            others.push(format!(
                "column {:?} is {new_type} now, for not all values are {own_type} as before",
                own.name()
            ));
        } else if own.data_type() != field.data_type() {
            as_before.push(format!(
                "{} {own_type} (the files alone: {})",
                own.name(),
                type_name(field.data_type())
            ));
        }
    }
    if !as_before.is_empty() {
        others.insert(0, format!("the table's own types stay: {}", as_before.join(", ")));
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::load::schema_text::parse;

    #[track_caller]
    fn check(existing: &str, found: &str, expected: &str, uncertain: &[&str]) {
        let kept = kept(&parse(existing).unwrap(), (&parse(found).unwrap(), false), true, &BTreeSet::new());
        assert_eq!(*kept.schema, parse(expected).unwrap(), "{existing}: {found}");
        assert!(kept.uncertain.iter().eq(uncertain), "{:?}", kept.uncertain);
    }

    #[test]
    fn types_stay_where_the_values_fit() {
        check("a int64, b utf8", "a int32 not null, b int32", "a int64, b utf8", &[]);
        check("a int8, b decimal(9,2)", "a int32, b float64", "a int8, b decimal(9,2)", &["a", "b"]);
        check("a int64 not null", "a int32", "a int64", &[]);
        check("at timestamp, n uint64", "n int32, at date32", "at timestamp, n uint64", &["n"]);
    }

    #[test]
    fn files_without_rows_change_nothing() {
        let (existing, found) =
            (parse("a int64 not null, b utf8").unwrap(), parse("b utf8, a utf8").unwrap());
        let kept = kept(&existing, (&found, true), true, &BTreeSet::new());
        assert_eq!(*kept.schema, existing);
    }

    #[test]
    fn names_are_those_of_the_table() {
        check("id int64, name utf8", "Name utf8, ID int32", "id int64, name utf8", &[]);
        check("a int64, \"A\" int64", "a int32, \"A\" int32", "a int64, \"A\" int64", &[]);
        check("a int64", "\"A\" int32, \"a\" int32", "\"A\" int32, a int64", &[]);
        check("a int64", "a int32, b int32", "a int64, b int32", &[]);
    }

    #[test]
    fn what_stays_is_told() {
        let (existing, found) = (parse("a int64, b int8").unwrap(), parse("a int32, b int32").unwrap());
        let planned = parse("a int64, b int32").unwrap();
        assert_eq!(
            notes(&existing, &found, true, &planned),
            [
                "the table's own types stay: a int64 (the files alone: int32)",
                "column \"b\" is int32 now, for not all values are int8 as before"
            ]
        );
    }
}
