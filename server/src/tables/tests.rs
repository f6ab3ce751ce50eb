//! A server's tables for tests: one of them, `t`, with a column `a` of whole numbers.

use std::{path::Path, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_core::{
    schema::{DataType, Field, Schema},
    table::{Appender, Table},
};

use super::{NewRows, Replaces};
use crate::{Config, environment, state::State};

/// A server over a folder, and the table, which is made.
pub(super) async fn with_table(folder: &Path) -> (State, Arc<Table>) {
    let config = Config { store: folder.display().to_string(), ..Config::default() };
    let state = State::new(environment::process(), &config, None).unwrap();
    state.tables.load().await.unwrap();
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
    let table = state.tables.create("t", schema, None, Default::default()).await.unwrap();
    (state, table)
}

/// Rows for it that are not written yet.
pub(super) fn rows(table: &Arc<Table>, values: &[i64]) -> NewRows {
    let mut appender = Appender::new(Arc::clone(table), &[]).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    appender.push(&RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap()).unwrap();
    NewRows { appender, writing: None, replaces: Replaces::Nothing, request: None }
}
