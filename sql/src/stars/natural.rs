//! NATURAL JOIN, where its columns are to be known: those that both sides have.

use datafusion::{
    execution::SessionState,
    sql::sqlparser::ast::{
        self, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Select, TableWithJoins, Value,
    },
};

use super::{columns, constraint, over};
use crate::{
    dialect,
    error::{Error, Result},
};

/// The columns of natural joins: those that both sides have.
pub(super) async fn natural(
    session: &SessionState,
    with: &Option<ast::With>,
    select: &Select,
) -> Result<Vec<Vec<Option<Vec<String>>>>> {
    let mut all = Vec::new();
    for table in &select.from {
        let mut of_table = Vec::new();
        let mut left = TableWithJoins { relation: table.relation.clone(), joins: Vec::new() };
        for join in &table.joins {
            let mut join = join.clone();
            let mut shared = None;
            if constraint(&join.join_operator) == Some(&JoinConstraint::Natural) {
                let right = TableWithJoins { relation: join.relation.clone(), joins: Vec::new() };
                let of_left = columns(session, with, over(vec![left.clone()])?).await?;
                let of_right = columns(session, with, over(vec![right])?).await?;
                let is_there = |name: &String| of_right.iter().any(|(_, other)| other == name);
                let names: Vec<String> = of_left.into_iter().map(|(_, name)| name).filter(is_there).collect();
                if (1..names.len()).any(|at| names[at..].contains(&names[at - 1])) {
                    return Err(Error::unsupported("a NATURAL JOIN by a column that stands twice"));
                }
                join.join_operator = by(join.join_operator, &names);
                shared = Some(names);
            }
            left.joins.push(join);
            of_table.push(shared);
        }
        all.push(of_table);
    }
    Ok(all)
}

/// A join by columns of these names, or of all rows with all.
fn by(join: JoinOperator, names: &[String]) -> JoinOperator {
    let using = names.iter().map(|name| ObjectName::from(vec![Ident::with_quote('"', name.clone())]));
    let using = JoinConstraint::Using(using.collect());
    match join {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) if !names.is_empty() => JoinOperator::Left(using),
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => {
            JoinOperator::Left(JoinConstraint::On(Expr::value(Value::Boolean(true))))
        }
        _ if names.is_empty() => JoinOperator::CrossJoin(JoinConstraint::None),
        _ => JoinOperator::Join(using),
    }
}

pub(super) fn put_natural(select: &mut Select, joins: &[Vec<Option<Vec<String>>>]) -> Result<()> {
    for (table, known) in select.from.iter_mut().zip(joins) {
        for (join, names) in table.joins.iter_mut().zip(known) {
            if let Some(names) = names {
                let operator =
                    std::mem::replace(&mut join.join_operator, JoinOperator::CrossJoin(JoinConstraint::None));
                join.join_operator = by(operator, names);
            }
        }
    }
    dialect::expand_using(select)?;
    dialect::qualify_natural(select)
}
