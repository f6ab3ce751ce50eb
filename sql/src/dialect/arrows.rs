//! Arrows of JSON: `->`, `->>`, `#>` and `#>>` as the functions that they are. The parser takes `a -> b` for a lambda, which it is
//! among the arguments of functions that take lambdas alone.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::{
    ast::{
        self, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, LambdaFunction, LambdaSyntax,
        ObjectNamePart, OneOrManyWithParens, Value, VisitMut as _, VisitorMut,
    },
    tokenizer::Location,
};

use super::exprs::{arguments, parsed};
use crate::{
    error::{Error, Result},
    lambdas,
};

/// Makes calls of arrows, and of casts to JSON.
pub(super) fn as_calls(statement: &mut ast::Statement) -> Result<()> {
    let mut arrows = Arrows { lambdas: BTreeSet::new() };
    match statement.visit(&mut arrows) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Arrows {
    /// Where lambdas begin.
    lambdas: BTreeSet<Location>,
}

/// The parameter of `a -> b`, which may be a column.
fn parameter(lambda: &LambdaFunction) -> Option<&ast::Ident> {
    let parameter = match &lambda.params {
        OneOrManyWithParens::One(parameter) => parameter,
        OneOrManyWithParens::Many(parameters) => match parameters.as_slice() {
            [parameter] => parameter,
            _ => return None,
        },
    };
    (lambda.syntax == LambdaSyntax::Arrow && parameter.data_type.is_none()).then_some(&parameter.name)
}

/// Whether an operator binds more than an arrow.
fn is_more(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(
        op,
        Op::Plus
            | Op::Minus
            | Op::Multiply
            | Op::Divide
            | Op::Modulo
            | Op::DuckIntegerDivide
            | Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight
    )
}

/// The operand at the beginning of an expression, as far as no operator binds more than an arrow.
fn first(expr: &mut Expr) -> &mut Expr {
    if matches!(expr, Expr::BinaryOp { op, .. } if is_more(op)) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { left: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsDistinctFrom(inner, _)
        | Expr::IsNotDistinctFrom(inner, _)
        | Expr::InList { expr: inner, .. }
        | Expr::InSubquery { expr: inner, .. }
        | Expr::Between { expr: inner, .. }
        | Expr::Like { expr: inner, .. }
        | Expr::ILike { expr: inner, .. }
        | Expr::SimilarTo { expr: inner, .. }
        | Expr::RLike { expr: inner, .. }
        | Expr::AnyOp { left: inner, .. }
        | Expr::AllOp { left: inner, .. } => first(inner),
        other => other,
    }
}

impl VisitorMut for Arrows {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Function(function) = &*expr
            && let Some(ObjectNamePart::Identifier(name)) = function.name.0.last()
            && lambdas::has(&name.value.to_lowercase())
        {
            // Default: it has no arguments.
            for argument in arguments(function).unwrap_or_default() {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda))) = argument
                    && let Some(name) = parameter(lambda)
                {
                    self.lambdas.insert(name.span.start);
                }
            }
        }
        if let Expr::Lambda(lambda) = expr
            && let Some(name) = parameter(lambda).cloned()
            && !self.lambdas.contains(&name.span.start)
        {
            let mut body = std::mem::replace(&mut *lambda.body, Expr::value(Value::Null));
            let operand = first(&mut body);
            let right = std::mem::replace(operand, Expr::value(Value::Null));
            let (left, op) = (Box::new(Expr::Identifier(name)), BinaryOperator::Arrow);
            *operand = Expr::BinaryOp { left, op, right: Box::new(right) };
            *expr = body;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match called(expr) {
            Ok(None) => {}
            Ok(Some(call)) => *expr = call,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// The call that an arrow, or a cast to JSON, is.
fn called(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::BinaryOp { left, op, right } => {
            let function = match op {
                BinaryOperator::Arrow => "json_extract",
                BinaryOperator::LongArrow => "json_extract_string",
                BinaryOperator::HashArrow => "basalt_json_extract_braces",
                BinaryOperator::HashLongArrow => "basalt_json_text_braces",
                _ => return Ok(None),
            };
            let operands = [(**left).clone(), (**right).clone()];
            Some(parsed(&format!("{function}($1, $2)"), &operands, &mut 0)?)
        }
        Expr::Cast { expr: inner, data_type: DataType::JSON | DataType::JSONB, .. } => {
            Some(parsed("json($1)", std::slice::from_ref(&**inner), &mut 0)?)
        }
        _ => None,
    })
}
