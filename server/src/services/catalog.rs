//! CatalogService: tables, and what the server is.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::{
    limits::{MAX_BATCH_ROWS, MAX_COLUMNS, MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_IN_LIST, MAX_SEMI_JOINS},
    table::Table,
};
use basalt_proto::v1::{self as pb, ErrorReason, catalog_service_server::CatalogService};
use basalt_storage::Damage;
use prost::Message as _;
use tonic::{Request, Response, Status};

use crate::{
    access::{Action, Object},
    call::Call,
    convert,
    coordinator::{self, fresh},
    limits,
    memory::{Consumer, schema_bytes},
    state::State,
    status::RequestError,
    tables::Verified,
    trace,
    units::millis,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Catalog(pub(crate) Arc<State>);

#[tonic::async_trait]
impl CatalogService for Catalog {
    async fn create_table(
        &self,
        request: Request<pb::CreateTableRequest>,
    ) -> Result<Response<pb::CreateTableResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.create(&mut call, request).await;
        call.reply(answer)
    }

    async fn drop_table(
        &self,
        request: Request<pb::DropTableRequest>,
    ) -> Result<Response<pb::DropTableResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.drop(&mut call, &request).await;
        call.reply(answer)
    }

    async fn attach_table(
        &self,
        request: Request<pb::AttachTableRequest>,
    ) -> Result<Response<pb::AttachTableResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.attach(&mut call, &request).await;
        call.reply(answer)
    }

    async fn set_retention(
        &self,
        request: Request<pb::SetRetentionRequest>,
    ) -> Result<Response<pb::SetRetentionResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.retain(&mut call, &request).await;
        call.reply(answer)
    }

    async fn set_deletes(
        &self,
        request: Request<pb::SetDeletesRequest>,
    ) -> Result<Response<pb::SetDeletesResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.set_how_to_delete(&mut call, &request).await;
        call.reply(answer)
    }

    async fn verify_table(
        &self,
        request: Request<pb::VerifyTableRequest>,
    ) -> Result<Response<pb::VerifyTableResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.verify(&mut call, &request).await;
        call.reply(answer)
    }

    async fn list_tables(
        &self,
        request: Request<pb::ListTablesRequest>,
    ) -> Result<Response<pb::ListTablesResponse>, Status> {
        let (call, request) = Call::begin(request)?;
        let listed = fresh::listed(&self.0, call.caller()).await;
        let page = listed.map(|(tables, unserved)| self.page(&request, &tables, unserved));
        call.reply(page)
    }

    async fn get_table(
        &self,
        request: Request<pb::GetTableRequest>,
    ) -> Result<Response<pb::GetTableResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.get(&mut call, &request).await;
        call.reply(answer)
    }

    async fn get_server_info(
        &self,
        request: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let (call, _) = Call::begin(request)?;
        call.reply(Ok(self.info()))
    }
}

impl Catalog {
    async fn create(
        &self,
        call: &mut Call,
        request: pb::CreateTableRequest,
    ) -> Result<pb::CreateTableResponse, RequestError> {
        let optimize = convert::from_optimize(request.optimize).map_err(|e| e.at("optimize"))?;
        let schema = convert::from_schema(request.schema.unwrap_or_default(), optimize);
        let schema = schema.map_err(|e| e.at("schema"))?;
        let retention = request.retention.as_ref().map(|r| convert::from_retention(r, &schema));
        let retention = retention.transpose().map_err(|e| e.at("retention"))?;
        let deletes = convert::from_deletes(request.deletes)?;
        // The name of a table that another node has dropped is free.
        fresh::catalog(&self.0).await?;
        // It is counted with the other tables once it is one of them.
        let mut held = self.0.memory.reserve(Consumer::Maintenance);
        held.set(schema_bytes(&schema))?;
        let (tables, name, of) = (Arc::clone(&self.0.tables), request.name.clone(), schema.clone());
        let kept = retention.clone();
        let how = deletes.unwrap_or_default();
        let created = whole(async move { tables.create(&name, of, kept, how).await }).await;
        let is_new = created.is_ok();
        let table = match created {
            Ok(table) => table,
            Err(error) if request.if_not_exists && error.reason() == "TABLE_EXISTS" => {
                let table = fresh::table(&self.0, &request.name).await?;
                if !table.schema().means_the_same_as(&schema) {
                    let message = format!("table {:?} exists with another schema", request.name);
                    return Err(RequestError::new(ErrorReason::TableExists, message).at("schema"));
                }
                let known = table.snapshot().retention().cloned();
                if retention.is_some() && known.as_deref() != retention.as_ref() {
                    let message = format!("table {:?} exists with another retention", request.name);
                    return Err(RequestError::new(ErrorReason::TableExists, message).at("retention"));
                }
                if deletes.is_some() && self.0.tables.deletes(&table) != deletes {
                    let message = format!("table {:?} exists with other deletes", request.name);
                    return Err(RequestError::new(ErrorReason::TableExists, message).at("deletes"));
                }
                table
            }
            Err(error) => return Err(error),
        };
        if is_new {
            self.0.made.add(&table, call.caller());
        }
        let answer = pb::CreateTableResponse { table: Some(convert::told(&self.0.tables, &table)) };
        call.table = Some(table);
        Ok(answer)
    }

    async fn drop(
        &self,
        call: &mut Call,
        request: &pb::DropTableRequest,
    ) -> Result<pb::DropTableResponse, RequestError> {
        fresh::catalog(&self.0).await?;
        let at = self.0.may_drop(call.caller(), &request.name)?;
        let (tables, name) = (Arc::clone(&self.0.tables), request.name.clone());
        let removed = whole(async move { tables.remove_at(&name, at).await }).await;
        match removed {
            Ok(table) => {
                call.table = table;
                Ok(pb::DropTableResponse {})
            }
            Err(error) if request.if_exists && error.reason() == "TABLE_NOT_FOUND" => {
                Ok(pb::DropTableResponse {})
            }
            Err(error) => Err(error),
        }
    }

    async fn attach(
        &self,
        call: &mut Call,
        request: &pb::AttachTableRequest,
    ) -> Result<pb::AttachTableResponse, RequestError> {
        let checked = self.0.tables.may_attach(&request.url);
        checked.inspect_err(|_| call.caller().refused_at(Action::Attach, &request.url))?;
        call.caller().allowed(Action::Attach, Object::Table(&request.name));
        fresh::catalog(&self.0).await?;
        let (tables, name, url) = (Arc::clone(&self.0.tables), request.name.clone(), request.url.clone());
        let table = whole(async move { tables.attach(&name, &url).await }).await?;
        let answer = pb::AttachTableResponse { table: Some(convert::told(&self.0.tables, &table)) };
        call.table = Some(table);
        Ok(answer)
    }

    async fn retain(
        &self,
        call: &mut Call,
        request: &pb::SetRetentionRequest,
    ) -> Result<pb::SetRetentionResponse, RequestError> {
        let table = fresh::table(&self.0, &request.table).await?;
        call.table = Some(Arc::clone(&table));
        let retention = request.retention.as_ref().map(|r| convert::from_retention(r, table.schema()));
        let retention = retention.transpose().map_err(|e| e.at("retention"))?;
        let (tables, target) = (Arc::clone(&self.0.tables), Arc::clone(&table));
        whole(async move { tables.set_retention(&target, retention).await }).await?;
        Ok(pb::SetRetentionResponse { table: Some(convert::told(&self.0.tables, &table)) })
    }

    async fn set_how_to_delete(
        &self,
        call: &mut Call,
        request: &pb::SetDeletesRequest,
    ) -> Result<pb::SetDeletesResponse, RequestError> {
        let deletes = convert::from_deletes(request.deletes)?;
        let deletes = deletes.ok_or_else(|| RequestError::protocol("it does not say which").at("deletes"))?;
        let table = fresh::table(&self.0, &request.table).await?;
        call.table = Some(Arc::clone(&table));
        let (tables, target) = (Arc::clone(&self.0.tables), Arc::clone(&table));
        whole(async move { tables.set_deletes(&target, deletes).await }).await?;
        Ok(pb::SetDeletesResponse { table: Some(convert::told(&self.0.tables, &table)) })
    }

    async fn verify(
        &self,
        call: &mut Call,
        request: &pb::VerifyTableRequest,
    ) -> Result<pb::VerifyTableResponse, RequestError> {
        let deadline = self.0.deadline(call)?;
        fresh::catalog(&self.0).await?;
        call.table = self.0.catalog.get(&request.name).ok();
        let Verified { files, bytes, damage, next } =
            self.0.tables.verify(&request.name, &request.page_token, deadline).await?;
        let damage = damage.into_iter().map(|Damage { path, column, why }| pb::Damage {
            file: path,
            column: column.unwrap_or_default(),
            message: why,
        });
        Ok(pb::VerifyTableResponse {
            files,
            bytes,
            damage: damage.collect(),
            next_page_token: next.unwrap_or_default(),
        })
    }

    /// A page of tables, the last one with those that are not served, and why. It ends early before its message is too large; the
    /// token is the last name.
    fn page(
        &self,
        request: &pb::ListTablesRequest,
        tables: &[Arc<Table>],
        unserved: BTreeMap<String, String>,
    ) -> pb::ListTablesResponse {
        let (default, most) = limits::PAGE_TABLES;
        let size = match request.page_size as usize {
            0 => default,
            size => size.min(most),
        };
        let rest = tables.iter().skip_while(|t| t.name() <= request.page_token.as_str());
        let mut rest = rest.take(tables.len()).peekable();
        let (mut page, mut bytes) = (pb::ListTablesResponse::default(), 0);
        while page.tables.len() < size
            && bytes < limits::ANSWER_MESSAGE_BYTES
            && let Some(table) = rest.next()
        {
            let table = convert::told(&self.0.tables, table);
            bytes += table.encoded_len();
            page.tables.push(table);
        }
        if rest.peek().is_some() {
            page.next_page_token = page.tables.last().map(|t| t.name.clone()).unwrap_or_default();
        } else {
            let damaged = unserved.into_iter().take(limits::DAMAGED_TABLES);
            page.damaged = damaged.map(|(name, message)| pb::DamagedTable { name, message }).collect();
        }
        page
    }

    async fn get(
        &self,
        call: &mut Call,
        request: &pb::GetTableRequest,
    ) -> Result<pb::GetTableResponse, RequestError> {
        let meant = |error| self.0.meant(error, &request.name, call.caller()).at("name");
        let table = fresh::table(&self.0, &request.name).await.map_err(meant)?;
        call.table = Some(Arc::clone(&table));
        let full = request.view() == pb::TableView::Full;
        let (told, deadline) = (convert::told(&self.0.tables, &table), self.0.deadline(call)?);
        let columns = if request.view() == pb::TableView::Summary {
            Vec::new()
        } else {
            coordinator::columns(&self.0, call.caller(), &request.name, full, deadline).await?
        };
        Ok(pb::GetTableResponse { table: Some(told), columns })
    }

    fn info(&self) -> pb::GetServerInfoResponse {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let state = &self.0;
        pb::GetServerInfoResponse {
            version: crate::VERSION.to_owned(),
            simd: basalt_core::simd().to_owned(),
            limits: Some(pb::Limits {
                message_bytes: limits::MESSAGE_BYTES as u64,
                filter_depth: small(MAX_FILTER_DEPTH),
                filter_nodes: small(MAX_FILTER_NODES),
                in_list_values: small(MAX_IN_LIST),
                columns: small(MAX_COLUMNS),
                batch_rows: small(MAX_BATCH_ROWS),
                memory_bytes: state.memory.limit(),
                concurrent_queries: small(state.cpu.concurrent()),
                max_deadline_ms: millis(state.max_deadline),
                kept_sets_bytes: state.sets.quota(),
                max_keep_ms: millis(limits::MAX_KEEP),
                semi_joins: small(MAX_SEMI_JOINS),
            }),
        }
    }
}

/// Runs a change of the catalog to its end, also when the client is gone meanwhile: what is in the store must be here.
async fn whole<T: Send + 'static>(
    change: impl Future<Output = Result<T, RequestError>> + Send + 'static,
) -> Result<T, RequestError> {
    tokio::spawn(trace::carried(change)).await.map_err(|_| RequestError::internal())?
}
