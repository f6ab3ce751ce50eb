//! One INSERT of rows that is sent again and again without a Sync in between, as drivers send batches: all of it is one
//! commit, or nothing. What its statements answer is kept until then, so that nobody is told of rows that come to nothing;
//! other statements between two Syncs are each for themselves, behind what came before them.

use basalt_sql::script::Part;

use super::{
    error::Error,
    session::{Session, is_word},
    transaction::State,
    wire::End,
};

/// See the module. The transaction that it writes to is that of its session.
#[derive(Debug)]
pub(super) struct Batch {
    /// Its statement.
    sql: String,
    /// Bytes of output before its first answer.
    answered: usize,
}

/// Whether a statement inserts rows that it names itself, whatever else the same transaction inserts.
fn inserts(part: &Part) -> bool {
    let begins = is_word(part.words.first(), &["insert"]) && is_word(part.words.get(1), &["into"]);
    begins
        && part.has(&["values"])
        && !part.has(&["select", "from", "table", "conflict", "returning", "with"])
}

impl Session {
    /// What a statement outside of a transaction has before it starts: it goes on with the batch, or ends it and perhaps
    /// begins another.
    pub(super) async fn join_batch(&mut self, part: &Part) -> std::result::Result<(), End> {
        if self.batch.as_ref().is_some_and(|batch| batch.sql == part.sql) {
            return Ok(());
        }
        self.end_batch().await?;
        if self.transaction.state == State::None && inserts(part) {
            self.transaction.implicit = true;
            self.batch = Some(Batch { sql: part.sql.clone(), answered: self.wire.output().len() });
        }
        Ok(())
    }

    /// Commits a batch. Where that fails, none of its answers is sent.
    pub(super) async fn end_batch(&mut self) -> std::result::Result<(), End> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let transaction = std::mem::take(&mut self.transaction);
        let committed = self.commit(&transaction).await;
        if committed.is_err() {
            self.wire.output().truncate(batch.answered);
        }
        committed
    }

    /// Gives a batch up.
    pub(super) async fn give_up_batch(&mut self) {
        if self.batch.take().is_some() {
            let transaction = std::mem::take(&mut self.transaction);
            transaction.writes.roll_back().await;
        }
    }

    /// Commits a batch at a Sync, after which the client is told in any case that it may go on.
    pub(super) async fn sync_batch(&mut self) -> std::result::Result<(), End> {
        match self.end_batch().await {
            Err(End::Error(error)) if !Error::is_fatal(&error) => Ok(self.failed(&error)?),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_alone_are_batches() {
        for (sql, is_batch) in [
            ("INSERT INTO t VALUES ($1)", true),
            ("insert into \"select\" (a, b) values ($1, $2), ($3, 'from')", true),
            ("INSERT INTO t SELECT $1", false),
            ("INSERT INTO t VALUES ((SELECT max(a) FROM t))", false),
            ("INSERT INTO t VALUES ($1) ON CONFLICT (a) DO NOTHING", false),
            ("INSERT INTO t TABLE u", false),
            ("UPDATE t SET a = 1", false),
            ("", false),
        ] {
            let parts = basalt_sql::script::split(sql).unwrap();
            assert_eq!(parts.first().is_some_and(inserts), is_batch, "{sql}");
        }
    }

    #[test]
    fn a_statement_of_many_columns_is_one_as_well() {
        for columns in [5, 15, 40, 1024] {
            let names = (0..columns).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
            let values = (1..=columns).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ");
            let insert = format!("INSERT INTO t ({names}) VALUES ({values})");
            for (end, is_batch) in
                [("", true), ("ON CONFLICT (c0) DO NOTHING", false), ("RETURNING c0", false)]
            {
                let parts = basalt_sql::script::split(&format!("{insert} {end}")).unwrap();
                assert_eq!(inserts(&parts[0]), is_batch, "{columns} {end}");
            }
        }
    }
}
