//! What is said of statements that there are not: what does here what they do elsewhere.

use crate::error::Error;

/// A statement that begins with these words.
pub(crate) fn no_statement(what: &str) -> Error {
    let instead = match what {
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "PREPARE"
        | "EXECUTE" | "DEALLOCATE" => {
            "needs a session, which only the door of PostgreSQL's clients (--postgres) has; here each statement is a commit of its own"
        }
        "GRANT" | "REVOKE" | "CREATE USER" | "CREATE ROLE" | "DROP USER" | "DROP ROLE" | "ALTER USER"
        | "ALTER ROLE" => "is not a statement here: rights are those of keys, which `basalt key new` makes",
        "CREATE SCHEMA" | "CREATE DATABASE" | "DROP SCHEMA" | "DROP DATABASE" | "USE" | "SHOW DATABASES"
        | "SHOW SCHEMAS" => {
            "is not a statement here: there is one database and one schema, whose tables SHOW TABLES lists"
        }
        "VACUUM" | "OPTIMIZE" | "ANALYZE" => "is not a statement here: the server does that by itself",
        _ => {
            return Error::invalid(format!(
                "there is no statement {what}; there are SELECT, WITH, VALUES, EXPLAIN, SHOW, DESCRIBE, SUMMARIZE, SET, INSERT, \
                 UPDATE, DELETE, TRUNCATE, COPY, CANCEL QUERY, ALTER TABLE, and CREATE and DROP of tables and views"
            ));
        }
    };
    Error::invalid(format!("{what} {instead}"))
}
