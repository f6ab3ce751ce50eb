//! Answers that no plan gives: how many rows were written, and what there is.

use std::{sync::Arc, time::Duration};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use basalt_core::schema::{DataType as Logical, Field, Schema};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::stream;

use crate::{
    answer::{Shown, rows},
    command::Command,
    error::Result,
    plan::Planned,
    settings::{self, About},
    views::Texts,
};

pub(crate) fn tables_schema() -> Schema {
    Schema::of_answer(vec![Field::new("table_name", Logical::Utf8, true)])
}

pub(crate) fn affected_schema() -> Schema {
    Schema::of_answer(vec![Field::new("rows", Logical::Int64, true)])
}

/// The answer of a statement that is no query: how many rows it has written.
pub(crate) fn affected(command: Command, rows: u64) -> Result<Planned> {
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    let planned = made(affected_schema(), vec![Arc::new(Int64Array::from(vec![rows]))])?;
    Ok(Planned { command, ..planned })
}

pub(crate) fn show_tables(tables: Vec<String>) -> Result<Planned> {
    made(tables_schema(), vec![Arc::new(StringArray::from(tables))])
}

pub(crate) fn columns_schema() -> Schema {
    let columns = [
        ("column_name", Logical::Utf8),
        ("data_type", Logical::Utf8),
        ("is_nullable", Logical::Bool),
        ("references", Logical::Utf8),
    ];
    Schema::of_answer(columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec())
}

pub(crate) fn views_schema() -> Schema {
    let columns = ["view_name", "definition"];
    Schema::of_answer(columns.map(|name| Field::new(name, Logical::Utf8, true)).to_vec())
}

pub(crate) fn show_views(views: &Texts) -> Result<Planned> {
    let names: StringArray = views.keys().map(Some).collect();
    let texts: StringArray = views.values().map(Option::as_deref).collect();
    made(views_schema(), vec![Arc::new(names), Arc::new(texts)])
}

pub(crate) fn text_schema() -> Schema {
    Schema::of_answer(vec![Field::new("statement", Logical::Utf8, true)])
}

pub(crate) fn settings_schema(about: &About) -> Schema {
    let names = match about {
        About::One(setting) => vec![setting.name()],
        About::All => vec!["name", "setting"],
        About::Nothing => return affected_schema(),
    };
    let text = |name| Field::new(name, Logical::Utf8, true);
    Schema::of_answer(names.into_iter().map(text).collect())
}

/// What SHOW tells of settings, and SET and RESET of what they have done.
pub(crate) fn show_settings(about: &About, timeout: Duration) -> Result<Planned> {
    let texts = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let columns = match about {
        About::One(setting) => vec![texts(vec![setting.at_first(timeout)])],
        About::All => vec![
            texts(settings::all().map(|setting| setting.name().to_owned()).collect()),
            texts(settings::all().map(|setting| setting.at_first(timeout)).collect()),
        ],
        About::Nothing => return affected(Command::Set, 0),
    };
    made(settings_schema(about), columns)
}

pub(crate) fn describe_columns(schema: &Schema) -> Result<Planned> {
    let fields = schema.fields();
    let text = |of: &dyn Fn(&Field) -> Option<String>| {
        Arc::new(fields.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let columns = vec![
        text(&|field| Some(field.name.clone())),
        text(&|field| Some(field.type_name())),
        Arc::new(fields.iter().map(|field| Some(field.nullable)).collect::<BooleanArray>()) as ArrayRef,
        text(&|field| field.references.as_ref().map(ToString::to_string)),
    ];
    made(columns_schema(), columns)
}

/// An answer that is there already.
pub(crate) fn made(schema: Schema, columns: Vec<ArrayRef>) -> Result<Planned> {
    let shown = Shown::of(schema);
    let batch = rows(shown.arrow(), columns)?;
    let batches = RecordBatchStreamAdapter::new(Arc::clone(shown.arrow()), stream::iter([Ok(batch)]));
    Ok(Planned { command: Command::Show, shown, batches: Box::pin(batches), copied: None })
}
