//! The layout of a part of groups, which follows from the plan.

use super::super::{aggregate::Kind, groups::Groups};
use crate::schema::DataType;

/// One column of a part: an entry for each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// A key of the group.
    Key(usize),
    /// Rows of the group: all, or those whose argument is not null.
    Count(Of),
    /// The sum of integers.
    Ints(Of),
    /// The sums of floats in fragments.
    Floats(Of),
    /// The least key.
    Min(Of),
    /// The greatest key.
    Max(Of),
    /// Some of the distinct keys.
    Set(Of),
}

/// An argument, and a state that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Of {
    /// None of `count(*)`.
    pub(super) argument: Option<usize>,
    pub(super) state: usize,
}

/// Whose texts a table of texts has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Key(usize),
    Argument(usize),
}

/// The tables of texts and the columns of a part, in their order.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) tables: Vec<Owner>,
    pub(super) columns: Vec<Column>,
}

impl Layout {
    /// That of a plan's groups: each argument's items once, however many aggregates share them.
    pub(super) fn of(groups: &Groups<'_>) -> Self {
        let keys = groups.key_types.iter().enumerate();
        let mut tables: Vec<Owner> = keys
            .clone()
            .filter(|(_, data_type)| **data_type == DataType::Utf8)
            .map(|(key, _)| Owner::Key(key))
            .collect();
        let mut columns: Vec<Column> = keys.map(|(key, _)| Column::Key(key)).collect();
        let arguments = (0..groups.arguments.all.len()).map(Some);
        for argument in std::iter::once(None).chain(arguments) {
            let of = groups.arguments.of.iter().zip(&groups.states).enumerate();
            let states: Vec<(usize, Kind)> = of
                .filter(|(_, (of, _))| **of == argument)
                .map(|(at, (_, state))| (at, state.kind()))
                .collect();
            let Some((first, _)) = states.first() else { continue };
            columns.push(Column::Count(Of { argument, state: *first }));
            let mut of_keys = false;
            for kind in [Kind::SumInts, Kind::SumFloats, Kind::Min, Kind::Max, Kind::Distinct] {
                let Some((state, _)) = states.iter().find(|(_, of)| *of == kind) else { continue };
                let of = Of { argument, state: *state };
                of_keys |= matches!(kind, Kind::Min | Kind::Max | Kind::Distinct);
                columns.push(match kind {
                    Kind::Count => Column::Count(of),
                    Kind::SumInts => Column::Ints(of),
                    Kind::SumFloats => Column::Floats(of),
                    Kind::Min => Column::Min(of),
                    Kind::Max => Column::Max(of),
                    Kind::Distinct => Column::Set(of),
                });
            }
            if let Some(at) = argument.filter(|_| of_keys)
                && groups.arguments.all[at].data_type == Some(DataType::Utf8)
            {
                tables.push(Owner::Argument(at));
            }
        }
        Self { tables, columns }
    }

    /// The place of an owner's table.
    pub(super) fn table(&self, owner: Owner) -> Option<usize> {
        self.tables.iter().position(|table| *table == owner)
    }
}
