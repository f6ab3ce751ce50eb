//! Columns of data files by their names. Delta's names do not tell upper from lower case, and writers keep that which they were
//! given: a file may have `userid` where the schema has `userId`.

/// Where a file has the column of a name: under that, or under the only one that differs from it in case alone and
/// `is_another`'s not. `None`: it does not have it.
///
/// # Errors
/// In words, where several differ in case alone.
pub(super) fn place_of<'a>(
    name: &str,
    given: impl Iterator<Item = &'a str> + Clone,
    is_another: impl Fn(&str) -> bool,
) -> Result<Option<usize>, String> {
    if let Some(place) = given.clone().position(|given| given == name) {
        return Ok(Some(place));
    }
    let lower = name.to_lowercase();
    let is_alike = |given: &str| {
        let is_same = match given.is_ascii() {
            true => given.eq_ignore_ascii_case(&lower),
            false => given.to_lowercase() == lower,
        };
        is_same && !is_another(given)
    };
    let mut alike = given.enumerate().filter(|(_, given)| is_alike(given));
    match (alike.next(), alike.next()) {
        (Some((_, one)), Some((_, two))) => {
            Err(format!("it has no column {name:?}, and both {one:?} and {two:?} may be that"))
        }
        (one, _) => Ok(one.map(|(place, _)| place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_tells_columns_apart_where_nothing_else_does() {
        let place = |name: &str, given: &[&str], others: &[&str]| {
            place_of(name, given.iter().copied(), |given| others.contains(&given))
        };
        assert_eq!(place("userId", &["userid", "userId"], &[]), Ok(Some(1)));
        assert_eq!(place("userId", &["id", "USERID"], &[]), Ok(Some(1)));
        assert_eq!(place("größe", &["GRÖSSE", "GRÖßE"], &[]), Ok(Some(1)));
        assert_eq!(place("userId", &["id", "user_id"], &[]), Ok(None));
        // It is another column of the table, which this file is older than.
        assert_eq!(place("userId", &["userid"], &["userid"]), Ok(None));
        assert_eq!(place("userId", &["userid", "USERID"], &["userid"]), Ok(Some(1)));
        let error = place("userId", &["userid", "USERID"], &[]).unwrap_err();
        assert!(error.contains("\"userId\"") && error.contains("\"USERID\""), "{error}");
    }
}
