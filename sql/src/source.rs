//! What a scan reads: one version of a table, and those of the tables that its queries name beside it.

use std::{collections::BTreeMap, convert::Infallible, fmt, sync::Arc};

use basalt_core::{
    encoding::TextMembers,
    error::Error,
    exec::Expected,
    limits::{MAX_FILTER_DEPTH, MAX_SEMI_JOINS},
    lookup::Lookup,
    query::{Attribute, Expr, Filter, KeyFilter, KeySet, Query, SemiJoin, SipOrigin, TextFilter},
    schema::{DataType, Field, Reference, Schema},
};
use basalt_sip::Sip;

use crate::{
    catalog::{Answers, Table},
    hops::Hops,
    limits,
};

/// See the module.
#[derive(Clone)]
pub(crate) struct Source {
    table: Arc<dyn Table>,
    /// By name; each is read at the version that the statement reads where it names none.
    others: BTreeMap<String, Arc<dyn Table>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.table)
    }
}

impl Source {
    pub(crate) fn new(table: Arc<dyn Table>) -> Self {
        Self { table, others: BTreeMap::new() }
    }

    /// The same, whose queries may name another table.
    pub(crate) fn with(&self, other: &Arc<dyn Table>) -> Self {
        let mut source = self.clone();
        source.others.insert(other.name().to_owned(), Arc::clone(other));
        source
    }

    /// The same over other tables in the places of these.
    pub(crate) fn over<E>(
        &self,
        other: &mut (impl FnMut(&Arc<dyn Table>) -> Result<Arc<dyn Table>, E> + ?Sized),
    ) -> Result<Self, E> {
        let table = other(&self.table)?;
        let others = self.others.iter().map(|(name, table)| Ok((name.clone(), other(table)?)));
        Ok(Self { table, others: others.collect::<Result<_, E>>()? })
    }

    pub(crate) fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }

    /// Whether its queries name no other table.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    fn schema_of(&self, table: &str) -> Option<&Schema> {
        self.others.get(table).map(|other| other.schema())
    }

    /// The types of a query's columns; `None`: the engine does not take it as it is, so that it is evaluated above.
    pub(crate) fn types(&self, query: &Query) -> Option<Vec<DataType>> {
        if self.others.is_empty() {
            return self.table.types(query);
        }
        self.table.types(&self.bound(query)?)
    }

    /// Roughly the bytes of a query's answer, where that takes little time. What it looks up may let all rows pass.
    pub(crate) fn light_bytes(&self, query: &Query) -> Option<u64> {
        if self.is_alone() {
            return self.table.light_bytes(query);
        }
        let is_small = |other: &Arc<dyn Table>| other.rows().most() <= limits::LIGHT_ATTRIBUTE_ROWS;
        let query = Query { filter: None, having: None, ..self.bound(query)? };
        self.others.values().all(is_small).then(|| self.table.light_bytes(&query)).flatten()
    }

    /// How many rows a query should select and answer. What it asks of other tables may let all rows pass, or none.
    pub(crate) fn expected(&self, query: &Query) -> Option<Expected> {
        if self.is_alone() { self.table.expected(query) } else { None }
    }

    pub(crate) fn run(&self, query: Query, hops: &Hops) -> Answers {
        self.table.run_with(query, hops)
    }

    /// The query with nothing in the places of what is found when it runs, so that its types can be told.
    fn bound(&self, query: &Query) -> Option<Query> {
        let mut query = query.clone();
        let mut known = true;
        let mut look_up = |attribute: &mut Attribute| {
            attribute.lookup = self.nothing_of(attribute).map(Arc::new);
            known &= attribute.lookup.is_some();
        };
        let done: Result<(), Infallible> = query.attributes(&mut |attribute, _| {
            look_up(attribute);
            Ok(())
        });
        let Ok(()) = done;
        let mut joins = 0;
        for filter in query.filter.iter_mut().chain(&mut query.having) {
            let done: Result<(), Infallible> = filter.attributes(&mut |attribute| {
                look_up(attribute);
                Ok(())
            });
            let Ok(()) = done;
            self.bind_joins(filter, 0, &mut joins)?;
        }
        (known && joins <= MAX_SEMI_JOINS).then_some(query)
    }

    fn bind_joins(&self, filter: &mut Filter, depth: usize, joins: &mut usize) -> Option<()> {
        match filter {
            _ if depth > MAX_FILTER_DEPTH => None,
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter_mut().try_for_each(|filter| self.bind_joins(filter, depth + 1, joins))
            }
            Filter::Not(inner) => self.bind_joins(inner, depth + 1, joins),
            Filter::SemiJoin(join) => {
                *joins += 1;
                *filter = self.no_keys(join)?;
                Some(())
            }
            _ => Some(()),
        }
    }

    /// A set of none of the keys of a semi-join.
    fn no_keys(&self, join: &SemiJoin) -> Option<Filter> {
        let data_type = type_of(self.schema_of(&join.table)?, &join.key)?;
        let origin = SipOrigin::SemiJoin { table: join.table.clone(), key: join.key.clone(), build_ns: 0 };
        let (column, has_null) = (join.column.clone(), false);
        Some(match data_type {
            DataType::Utf8 => {
                let texts = Arc::new(std::iter::empty::<Box<str>>().collect::<TextMembers>());
                Filter::Texts(TextFilter { column, texts, has_null, origin })
            }
            data_type if data_type.has_key_domain() => {
                let set = KeySet { data_type, has_null, sip: Arc::new(Sip::empty()), origin };
                Filter::Keys(KeyFilter { column, set })
            }
            _ => return None,
        })
    }

    /// What a column refers to.
    pub(crate) fn reference(&self, column: &str) -> Option<&Reference> {
        field(self.table.schema(), column)?.references.as_ref()
    }

    /// A column, or one that another refers to.
    pub(crate) fn field(&self, column: &Expr) -> Option<&Field> {
        match column {
            Expr::Column(name) => field(self.table.schema(), name),
            Expr::Attribute(attribute) => {
                let other = self.schema_of(&self.reference(&attribute.column)?.table)?;
                field(other, &attribute.name)
            }
            _ => None,
        }
    }

    /// An attribute's values of no keys.
    fn nothing_of(&self, attribute: &Attribute) -> Option<Lookup> {
        let field = field(self.table.schema(), &attribute.column)?;
        let reference = field.references.as_ref()?;
        let other = self.schema_of(&reference.table)?;
        let (key_type, data_type) = (type_of(other, &reference.column)?, type_of(other, &attribute.name)?);
        let lookup: Result<Lookup, Error> =
            Lookup::new(reference, (field.data_type, key_type), data_type, &[]);
        lookup.ok()
    }
}

fn field<'a>(schema: &'a Schema, column: &str) -> Option<&'a Field> {
    Some(&schema.fields()[schema.index_of(column)?])
}

fn type_of(schema: &Schema, column: &str) -> Option<DataType> {
    Some(field(schema, column)?.data_type)
}
