//! What is told of a name, whatever the case of its letters: of a table, or, where the server takes SQL, of a view.

use arrow_cast::display::array_value_to_string;

use super::{describe, error::CliError, grid::Grid};
use crate::{Client, Error, ErrorReason, QueryResult};

/// Tables, those that cannot be read, and views.
pub(super) async fn all(client: &Client) -> Result<String, CliError> {
    let (tables, damaged) = client.list_all_tables().await?;
    let views = match views(client).await {
        views if views.is_empty() => String::new(),
        views => format!("views: {}\n", views.join(", ")),
    };
    if tables.is_empty() && damaged.is_empty() && !views.is_empty() {
        return Ok(views);
    }
    Ok(describe::tables(&tables, &damaged, client.header().is_some()) + &views)
}

/// The names of the views, of which there are none where the server has no SQL.
async fn views(client: &Client) -> Vec<String> {
    client.sql("SHOW VIEWS").collect().await.map_or_else(|_| Vec::new(), |answer| column(&answer, 0))
}

/// A table's columns, or a view's.
pub(super) async fn one(client: &Client, name: &str, full: bool) -> Result<String, CliError> {
    let missing = match of_table(client, name, full).await {
        Err(error) if error.reason() == ErrorReason::TableNotFound => error,
        told => return Ok(told?),
    };
    let alike = |other: &str| other.eq_ignore_ascii_case(name);
    let tables = client.list_tables().await?;
    if let [table] = tables.iter().filter(|table| alike(&table.name)).collect::<Vec<_>>().as_slice() {
        return Ok(of_table(client, &table.name, full).await?);
    }
    match views(client).await.iter().filter(|view| alike(view)).collect::<Vec<_>>().as_slice() {
        [view] => of_view(client, view).await,
        _ => Err(missing.into()),
    }
}

async fn of_table(client: &Client, name: &str, full: bool) -> Result<String, Error> {
    let details = if full { client.table_full(name).await } else { client.table(name).await };
    Ok(describe::describe(&details?))
}

async fn of_view(client: &Client, name: &str) -> Result<String, CliError> {
    let answer = client.sql(format!("DESCRIBE \"{}\"", name.replace('"', "\"\""))).collect().await?;
    let mut grid = Grid::new([("column", false), ("type", false), ("null", false)]);
    for ((column_name, data_type), null) in
        column(&answer, 0).into_iter().zip(column(&answer, 1)).zip(column(&answer, 2))
    {
        grid.row([column_name, data_type, null]);
    }
    Ok(format!("{}view {name}; SHOW CREATE VIEW shows its query\n", grid.render()))
}

/// The values of one column of an answer, as texts.
fn column(answer: &QueryResult, column: usize) -> Vec<String> {
    let of_batch = |batch: &arrow_array::RecordBatch| {
        let values = batch.columns().get(column).cloned();
        let shown = |row| values.as_ref().and_then(|values| array_value_to_string(values, row).ok());
        // Default: there is no such column.
        (0..batch.num_rows()).map(|row| shown(row).unwrap_or_default()).collect::<Vec<_>>()
    };
    answer.batches.iter().flat_map(of_batch).collect()
}
