//! Names that somebody may have meant who wrote another one.

use crate::{
    error::{Error, ErrorKind, Result},
    limits,
    schema::Schema,
};

impl Schema {
    /// The column that a person means by a name, as SQL has it: the one of that name, else the only one that differs in the
    /// case of letters alone.
    ///
    /// # Errors
    /// [`ErrorKind::ColumnNotFound`] where there is none, or more than one.
    pub fn find(&self, name: &str) -> Result<usize> {
        if let Some(column) = self.index_of(name) {
            return Ok(column);
        }
        let low = name.to_lowercase();
        let columns = self.fields().iter().enumerate();
        let alike: Vec<_> = columns.filter(|(_, field)| field.name.to_lowercase() == low).collect();
        match alike.as_slice() {
            [(column, _)] => Ok(*column),
            [(_, first), (_, second), ..] => {
                let (first, second) = (&first.name, &second.name);
                let message = format!("column {name:?} may be {first:?} or {second:?}");
                Err(Error::new(ErrorKind::ColumnNotFound, message))
            }
            [] => Err(self.without(name)),
        }
    }

    /// The error of a column that is not there, with the one that may be meant.
    pub fn without(&self, name: &str) -> Error {
        let meant = hint(name, self.fields().iter().map(|field| field.name.as_str()));
        Error::new(ErrorKind::ColumnNotFound, format!("the table has no column {name:?}{meant}"))
    }
}

/// `; did you mean "b"?` of the name that is most like one, where one is like it.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if name.chars().count() > limits::SIMILAR_NAME {
        return String::new();
    }
    let low = name.to_lowercase();
    // A letter that is missing, wrong or in the wrong place: of short names one, of long ones more.
    let most = (name.chars().count() / 3).clamp(1, 3);
    let far = |other: &str| strsim::damerau_levenshtein(&low, &other.to_lowercase());
    let all = known.into_iter().take(limits::SIMILAR_NAMES);
    let near = all.filter(|other| other.len() <= 4 * limits::SIMILAR_NAME).map(|other| (far(other), other));
    match near.filter(|(distance, _)| *distance <= most).min() {
        Some((_, other)) => format!("; did you mean {other:?}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DataType, Field};

    #[test]
    fn a_column_is_found_but_for_case() {
        let field = |name: &str| Field::new(name, DataType::Int8, true);
        let schema = Schema::new(["id", "Id", "Name", "größe"].map(field).to_vec()).unwrap();
        assert_eq!(schema.find("Id").unwrap(), 1);
        assert_eq!(schema.find("NAME").unwrap(), 2);
        assert_eq!(schema.find("GRÖßE").unwrap(), 3);
        let message = |name: &str| schema.find(name).unwrap_err().message().to_owned();
        assert_eq!(message("ID"), "column \"ID\" may be \"id\" or \"Id\"");
        assert_eq!(message("nmae"), "the table has no column \"nmae\"; did you mean \"Name\"?");
        assert_eq!(message("salary"), "the table has no column \"salary\"");
    }

    #[test]
    fn the_nearest_is_meant() {
        let known = ["carrier", "year", "dep_delay", "arr_delay", "a", "Größe"];
        let meant = |name: &str| hint(name, known);
        assert_eq!(meant("carier"), "; did you mean \"carrier\"?");
        assert_eq!(meant("yaer"), "; did you mean \"year\"?");
        assert_eq!(meant("DEP_DELAYS"), "; did you mean \"dep_delay\"?");
        assert_eq!(meant("größ"), "; did you mean \"Größe\"?");
        for name in ["salary", "ye", "", &"year".repeat(100)] {
            assert_eq!(meant(name), if name.len() < 2 { "; did you mean \"a\"?" } else { "" }, "{name}");
        }
    }
}
