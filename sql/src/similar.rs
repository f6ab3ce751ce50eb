//! Names that somebody may have meant who wrote another one.

use crate::limits;

/// `; did you mean "b"?` of the name that is most like one, where one is like it.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
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
