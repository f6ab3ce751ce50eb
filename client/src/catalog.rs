//! Tables: create, drop, list, describe.

use std::time::Duration;

use arrow_schema::{Field, Schema, SchemaRef};
use basalt_proto::v1::{self, TableView};

use crate::{
    client::Client,
    convert::{field_from_proto, schema_from_proto, schema_to_proto},
    error::{Error, Result},
    expr::Literal,
};

/// Which encoding holds how much of a column.
pub type EncodingUse = v1::EncodingUse;
/// What an encoding would make of a column's values.
pub type EncodingEstimate = v1::EncodingEstimate;

/// A table and its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// The number of its newest commit.
    pub version: u64,
    /// Rows.
    pub rows: u64,
    /// Fragments of at most 2^20 rows.
    pub fragments: u64,
    /// Bytes held in memory, everything counted.
    pub bytes: u64,
    /// For how long its rows are part of it; `None`: for good.
    pub retention: Option<Retention>,
    /// What deletions leave in its files; `None`: it is in memory alone.
    pub deletes: Option<Deletes>,
}

/// What deletions, and writes that replace rows, leave in the files of a durable table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Deletes {
    /// Deletion vectors beside the files: the least to write, and unknown to some readers of Delta
    #[default]
    Vectors,
    /// The files are written again without the rows, so that every reader of Delta reads the table
    Rewrite,
}

/// What a new table is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// For how long its rows are part of it; `None`: for good.
    pub retention: Option<Retention>,
    /// What deletions leave in its files; `None`: as the server does it, vectors.
    pub deletes: Option<Deletes>,
    /// What its columns are optimized for that do not say so themselves, see [`crate::convert::OPTIMIZE_KEY`]; `None`:
    /// as the server does it, balanced.
    pub optimize: Option<Optimize>,
}

/// What the encodings of columns are chosen for. It changes bytes and speed, never an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Optimize {
    /// The fewest bytes, whatever they cost to read
    Size,
    /// Within three percent of the fewest bytes, and the fastest of those
    #[default]
    Balanced,
    /// The fastest of what takes at most twice the fewest bytes
    Speed,
}

/// A table that there is and that the server cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedTable {
    /// Its name.
    pub name: String,
    /// Why, with the file.
    pub message: String,
}

/// What reading all files of a table has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Data files.
    pub files: u64,
    /// Bytes of them and of their deletion vectors.
    pub bytes: u64,
    /// What is not as it was written.
    pub damage: Vec<Damage>,
}

/// A part of a table's files that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, with the store's address.
    pub file: String,
    /// The column; `None` when it is not one alone.
    pub column: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// For how long rows are part of a table: older ones are not read any more, and freed some time later. Rows without a
/// time are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// A timestamp, or a date, whose days end at midnight UTC.
    pub column: String,
    /// In whole seconds.
    pub keep: Duration,
}

/// A table with all that is known of its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDetails {
    /// The table.
    pub table: Table,
    /// Its columns, in the schema's order.
    pub columns: Vec<ColumnInfo>,
}

/// How one column is held.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnInfo {
    /// Name and type.
    pub field: Field,
    /// Rows.
    pub rows: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// Bytes held, with validity, indexes, tables and headers.
    pub bytes: u64,
    /// Bytes that plain Arrow arrays would take.
    pub plain_bytes: u64,
    /// The encodings that hold the column's fragments.
    pub encodings: Vec<EncodingUse>,
    /// Order-0 entropy of the values in bits a row; only where the full view was asked for.
    pub entropy_bits: Option<f64>,
    /// The smallest value.
    pub min: Option<Literal>,
    /// The largest value.
    pub max: Option<Literal>,
    /// Each encoding's size estimate for the values; only where the full view was asked for.
    pub estimates: Vec<EncodingEstimate>,
    /// How often queries have read the column lately, of the fragment of which they have read it most: halved every ten
    /// minutes; only where the full view was asked for.
    pub heat: f64,
    /// The faster forms that are held beside the encodings, as long as memory has room; only where the full view was asked
    /// for. [`ColumnInfo::bytes`] does not count them.
    pub faster: Vec<EncodingUse>,
}

impl Client {
    /// Creates a table. A field's metadata may force an encoding, see [`crate::convert::ENCODING_KEY`], and
    /// say what the column refers to, see [`crate::convert::REFERENCES_KEY`].
    ///
    /// # Errors
    /// `TABLE_EXISTS`, `INVALID_NAME`, `INVALID_SCHEMA`, and those of any call.
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// use arrow_schema::{DataType, Field, Schema};
    ///
    /// let schema = Schema::new(vec![
    ///     Field::new("carrier", DataType::Utf8, false),
    ///     Field::new("dep_delay", DataType::Int32, true),
    /// ]);
    /// client.create_table("flights", &schema).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_table(&self, name: &str, schema: &Schema) -> Result<Table> {
        self.create(name, schema, false, &TableOptions::default()).await
    }

    /// Creates a table that is not as others are.
    ///
    /// # Errors
    /// Those of [`Client::create_table`], of [`Client::set_retention`] and of [`Client::set_deletes`].
    pub async fn create_table_with(
        &self,
        name: &str,
        schema: &Schema,
        options: &TableOptions,
    ) -> Result<Table> {
        self.create(name, schema, false, options).await
    }

    /// Creates a table whose rows are part of it for a time.
    ///
    /// # Errors
    /// Those of [`Client::create_table`] and of [`Client::set_retention`].
    pub async fn create_table_with_retention(
        &self,
        name: &str,
        schema: &Schema,
        retention: &Retention,
    ) -> Result<Table> {
        let options = TableOptions { retention: Some(retention.clone()), ..TableOptions::default() };
        self.create(name, schema, false, &options).await
    }

    /// Creates a table, or finds it there with the same schema.
    ///
    /// # Errors
    /// `TABLE_EXISTS` when it has another schema; those of [`Client::create_table`].
    pub async fn create_table_if_missing(&self, name: &str, schema: &Schema) -> Result<Table> {
        let options = TableOptions::default();
        self.retrying(|| self.create(name, schema, true, &options)).await
    }

    async fn create(
        &self,
        name: &str,
        schema: &Schema,
        if_not_exists: bool,
        options: &TableOptions,
    ) -> Result<Table> {
        let schema = Some(schema_to_proto(schema)?);
        let retention = options.retention.as_ref().map(retention_to_proto);
        let deletes = options.deletes.map_or(v1::Deletes::Unspecified, deletes_to_proto).into();
        let optimize = options.optimize.map_or(v1::Optimize::Unspecified, optimize_to_proto).into();
        let name = name.to_owned();
        let request = v1::CreateTableRequest { name, schema, if_not_exists, retention, deletes, optimize };
        let answer = self.call(self.catalog().create_table(self.request(request))).await?;
        table_from_proto(answer.table)
    }

    /// Says for how long rows are part of a table; `None`: for good. What was freed does not come back.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, `COLUMN_NOT_FOUND`; `TYPE_MISMATCH` for a column that has no times; `INVALID_SCHEMA` for less
    /// than a second; `READ_ONLY`; and those of any call.
    pub async fn set_retention(&self, table: &str, retention: Option<&Retention>) -> Result<Table> {
        let answer = self
            .retrying(|| async {
                let retention = retention.map(retention_to_proto);
                let request = v1::SetRetentionRequest { table: table.to_owned(), retention };
                self.call(self.catalog().set_retention(self.request(request))).await
            })
            .await?;
        table_from_proto(answer.table)
    }

    /// Says what deletions leave in a table's files from now on.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`; `INVALID_STORE` of a table in memory alone; `READ_ONLY`; and those of any call.
    pub async fn set_deletes(&self, table: &str, deletes: Deletes) -> Result<Table> {
        let answer = self
            .retrying(|| async {
                let deletes = deletes_to_proto(deletes).into();
                let request = v1::SetDeletesRequest { table: table.to_owned(), deletes };
                self.call(self.catalog().set_deletes(self.request(request))).await
            })
            .await?;
        table_from_proto(answer.table)
    }

    /// Has the server read all files of a table on storage, and says what is damaged.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, `INVALID_STORE` of a table in memory alone, `STORE_UNAVAILABLE`, and those of any call.
    pub async fn verify_table(&self, name: &str) -> Result<Verified> {
        let (mut verified, mut page_token) = (Verified::default(), String::new());
        loop {
            let page = self
                .retrying(|| async {
                    let request =
                        v1::VerifyTableRequest { name: name.to_owned(), page_token: page_token.clone() };
                    self.call(self.catalog().verify_table(self.request(request))).await
                })
                .await?;
            verified.files += page.files;
            verified.bytes += page.bytes;
            let damage = page.damage.into_iter().map(|v1::Damage { file, column, message }| {
                let column = Some(column).filter(|column| !column.is_empty());
                Damage { file, column, message }
            });
            verified.damage.extend(damage);
            if page.next_page_token.is_empty() {
                return Ok(verified);
            }
            if page.next_page_token <= page_token {
                return Err(Error::Malformed("the same page of files twice".to_owned()));
            }
            page_token = page.next_page_token;
        }
    }

    /// Drops a table.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, and those of any call.
    pub async fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_with(name, false).await
    }

    /// Drops a table if there is one.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn drop_table_if_exists(&self, name: &str) -> Result<()> {
        self.retrying(|| self.drop_with(name, true)).await
    }

    async fn drop_with(&self, name: &str, if_exists: bool) -> Result<()> {
        let request = self.request(v1::DropTableRequest { name: name.to_owned(), if_exists });
        self.call(self.catalog().drop_table(request)).await.map(|_| ())
    }

    /// Makes a Delta Lake table of another writer one of the server's, read only: by a directory as the server sees
    /// it, or `s3://bucket/prefix`. [`Client::drop_table`] detaches it.
    ///
    /// # Errors
    /// `TABLE_EXISTS`, `INVALID_NAME`, `INVALID_STORE`, and those of any call.
    pub async fn attach_table(&self, name: &str, url: &str) -> Result<Table> {
        let request = self.request(v1::AttachTableRequest { name: name.to_owned(), url: url.to_owned() });
        let answer = self.call(self.catalog().attach_table(request)).await?;
        table_from_proto(answer.table)
    }

    /// Every table, by name.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn list_tables(&self) -> Result<Vec<Table>> {
        Ok(self.list_all_tables().await?.0)
    }

    /// Every table, by name, and those that the server cannot read.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn list_all_tables(&self) -> Result<(Vec<Table>, Vec<DamagedTable>)> {
        let mut tables = Vec::new();
        let mut page_token = String::new();
        loop {
            let page = self
                .retrying(|| async {
                    let request = v1::ListTablesRequest { page_size: 0, page_token: page_token.clone() };
                    self.call(self.catalog().list_tables(self.request(request))).await
                })
                .await?;
            for table in page.tables {
                tables.push(table_from_proto(Some(table))?);
            }
            if page.next_page_token.is_empty() {
                let damaged = page.damaged.into_iter();
                let damaged =
                    damaged.map(|v1::DamagedTable { name, message }| DamagedTable { name, message });
                return Ok((tables, damaged.collect()));
            }
            if page.next_page_token == page_token {
                return Err(Error::Malformed("the same page of tables twice".to_owned()));
            }
            page_token = page.next_page_token;
        }
    }

    /// A table, of which no node that holds some of it need be asked.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, and those of any call.
    pub async fn table_summary(&self, name: &str) -> Result<Table> {
        Ok(self.table_view(name, TableView::Summary).await?.table)
    }

    /// A table with its columns' encodings and sizes.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, and those of any call.
    pub async fn table(&self, name: &str) -> Result<TableDetails> {
        self.table_view(name, TableView::Basic).await
    }

    /// Also the entropy of every column and the size estimates of all encodings, which reads all of them.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, and those of any call.
    pub async fn table_full(&self, name: &str) -> Result<TableDetails> {
        self.table_view(name, TableView::Full).await
    }

    async fn table_view(&self, name: &str, view: TableView) -> Result<TableDetails> {
        let answer = self
            .retrying(|| async {
                let request = v1::GetTableRequest { name: name.to_owned(), view: view.into() };
                self.call(self.catalog().get_table(self.request(request))).await
            })
            .await?;
        let columns = answer.columns.into_iter().map(column_from_proto).collect::<Result<_>>()?;
        Ok(TableDetails { table: table_from_proto(answer.table)?, columns })
    }
}

fn table_from_proto(table: Option<v1::Table>) -> Result<Table> {
    let missing = |what: &str| Error::Malformed(format!("a table without its {what}"));
    let table = table.ok_or_else(|| missing("description"))?;
    let schema = schema_from_proto(table.schema.as_ref().ok_or_else(|| missing("schema"))?)?;
    let deletes = match table.deletes() {
        v1::Deletes::Unspecified => None,
        v1::Deletes::Vectors => Some(Deletes::Vectors),
        v1::Deletes::Rewrite => Some(Deletes::Rewrite),
    };
    let v1::Table { name, version, rows, fragments, bytes, retention, .. } = table;
    let retention = retention.map(|v1::Retention { column, seconds }| {
        let keep = Duration::from_secs(seconds);
        Retention { column, keep }
    });
    Ok(Table { name, schema, version, rows, fragments, bytes, retention, deletes })
}

fn optimize_to_proto(optimize: Optimize) -> v1::Optimize {
    match optimize {
        Optimize::Size => v1::Optimize::Size,
        Optimize::Balanced => v1::Optimize::Balanced,
        Optimize::Speed => v1::Optimize::Speed,
    }
}

fn deletes_to_proto(deletes: Deletes) -> v1::Deletes {
    match deletes {
        Deletes::Vectors => v1::Deletes::Vectors,
        Deletes::Rewrite => v1::Deletes::Rewrite,
    }
}

fn retention_to_proto(retention: &Retention) -> v1::Retention {
    v1::Retention { column: retention.column.clone(), seconds: retention.keep.as_secs() }
}

fn column_from_proto(column: v1::ColumnInfo) -> Result<ColumnInfo> {
    let field =
        column.field.as_ref().ok_or_else(|| Error::Malformed("a column without its field".to_owned()))?;
    let literal = |value: Option<v1::Value>| value.map(Literal::from).filter(|l| l.kind().is_some());
    Ok(ColumnInfo {
        field: field_from_proto(field)?,
        rows: column.rows,
        nulls: column.nulls,
        bytes: column.bytes,
        plain_bytes: column.plain_bytes,
        encodings: column.encodings,
        entropy_bits: column.entropy_bits,
        min: literal(column.min),
        max: literal(column.max),
        estimates: column.estimates,
        heat: column.heat,
        faster: column.faster,
    })
}
