//! Tables: create, drop, list, describe.

use arrow_schema::Schema;
use basalt_proto::v1::{self, TableView};

use crate::{
    call::Call,
    client::Client,
    convert::schema_to_proto,
    error::{Error, Result},
    table::{
        Damage, DamagedTable, Deletes, Retention, Table, TableDetails, TableOptions, Verified,
        column_from_proto, deletes_to_proto, optimize_to_proto, retention_to_proto, table_from_proto,
    },
};

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
        self.create(self.once(), name, schema, false, &TableOptions::default()).await
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
        self.create(self.once(), name, schema, false, options).await
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
        self.create(self.once(), name, schema, false, &options).await
    }

    /// Creates a table, or finds it there with the same schema.
    ///
    /// # Errors
    /// `TABLE_EXISTS` when it has another schema; those of [`Client::create_table`].
    pub async fn create_table_if_missing(&self, name: &str, schema: &Schema) -> Result<Table> {
        let options = TableOptions::default();
        self.retrying(|call| self.create(call, name, schema, true, &options)).await
    }

    async fn create(
        &self,
        call: Call,
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
        let answer = call.call(call.catalog().create_table(call.request(request)?)).await?;
        table_from_proto(answer.table)
    }

    /// Says for how long rows are part of a table; `None`: for good. What was freed does not come back.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, `COLUMN_NOT_FOUND`; `TYPE_MISMATCH` for a column that has no times; `INVALID_SCHEMA` for less
    /// than a second; `READ_ONLY`; and those of any call.
    pub async fn set_retention(&self, table: &str, retention: Option<&Retention>) -> Result<Table> {
        let answer = self
            .retrying(|call| async move {
                let retention = retention.map(retention_to_proto);
                let request = v1::SetRetentionRequest { table: table.to_owned(), retention };
                call.call(call.catalog().set_retention(call.request(request)?)).await
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
            .retrying(|call| async move {
                let deletes = deletes_to_proto(deletes).into();
                let request = v1::SetDeletesRequest { table: table.to_owned(), deletes };
                call.call(call.catalog().set_deletes(call.request(request)?)).await
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
            let token = &page_token;
            let page = self
                .retrying(|call| async move {
                    let request = v1::VerifyTableRequest { name: name.to_owned(), page_token: token.clone() };
                    call.call(call.catalog().verify_table(call.request(request)?)).await
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
        self.drop_with(self.once(), name, false).await
    }

    /// Drops a table if there is one.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn drop_table_if_exists(&self, name: &str) -> Result<()> {
        self.retrying(|call| self.drop_with(call, name, true)).await
    }

    async fn drop_with(&self, call: Call, name: &str, if_exists: bool) -> Result<()> {
        let request = call.request(v1::DropTableRequest { name: name.to_owned(), if_exists })?;
        call.call(call.catalog().drop_table(request)).await.map(|_| ())
    }

    /// Makes a Delta Lake table of another writer one of the server's, read only: by a directory as the server sees
    /// it, or `s3://bucket/prefix`. [`Client::drop_table`] detaches it.
    ///
    /// # Errors
    /// `TABLE_EXISTS`, `INVALID_NAME`, `INVALID_STORE`, and those of any call.
    pub async fn attach_table(&self, name: &str, url: &str) -> Result<Table> {
        let call = self.once();
        let request = v1::AttachTableRequest { name: name.to_owned(), url: url.to_owned() };
        let request = call.request(request)?;
        let answer = call.call(call.catalog().attach_table(request)).await?;
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
            let token = &page_token;
            let page = self
                .retrying(|call| async move {
                    let request = v1::ListTablesRequest { page_size: 0, page_token: token.clone() };
                    call.call(call.catalog().list_tables(call.request(request)?)).await
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
            .retrying(|call| async move {
                let request = v1::GetTableRequest { name: name.to_owned(), view: view.into() };
                call.call(call.catalog().get_table(call.request(request)?)).await
            })
            .await?;
        let columns = answer.columns.into_iter().map(column_from_proto).collect::<Result<_>>()?;
        Ok(TableDetails { table: table_from_proto(answer.table)?, columns })
    }
}
