//! Timestamps as texts. Each is written into one text, which keeps its date while the day stays the same: three texts for each
//! row took most of the time of such a cast.

use arrow_array::{Int64Array, StringArray, builder::StringBuilder};
use basalt_core::time::push_date;

use crate::interval::push_time;

const DAY_SECONDS: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;
/// How long a date and a time without a fraction are.
const WHOLE: usize = 19;

/// The texts of timestamps in a unit of which a second has so many.
pub(crate) fn texts(values: &Int64Array, per_second: i64) -> StringArray {
    let mut texts = StringBuilder::with_capacity(values.len(), values.len().saturating_mul(WHOLE));
    let mut text = String::new();
    // The day whose date stands in the text, and where it ends there.
    let mut dated: Option<(i64, usize)> = None;
    for value in values.iter() {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
        let (day, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        match dated {
            Some((known, end)) if known == day => text.truncate(end),
            _ => {
                text.clear();
                match i32::try_from(day) {
                    Ok(day) => push_date(&mut text, day),
                    // It is farther away than dates go.
                    Err(_) => text.push_str(&format!("day {day}")),
                }
                text.push(' ');
                dated = Some((day, text.len()));
            }
        }
        push_time(&mut text, second * NANOS + fraction * (NANOS / per_second));
        texts.append_value(&text);
    }
    texts.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::civil;

    fn date(days: i32) -> String {
        let (year, month, day) = civil(i64::from(days));
        let sign = if year < 0 { "-" } else { "" };
        format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
    }

    /// The text of one, formatted by its parts.
    fn joined(value: i64, per_second: i64) -> String {
        let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let nanos = fraction * (1_000_000_000 / per_second);
        let date = i32::try_from(days).map_or_else(|_| format!("day {days}"), date);
        let mut text = format!("{date} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        if nanos > 0 {
            text.push_str(format!(".{nanos:09}").trim_end_matches('0'));
        }
        text
    }

    fn check(values: &[Option<i64>], per_second: i64) {
        let texts = texts(&Int64Array::from(values.to_vec()), per_second);
        let expected: Vec<Option<String>> =
            values.iter().map(|value| value.map(|value| joined(value, per_second))).collect();
        let texts: Vec<Option<String>> = texts.iter().map(|text| text.map(str::to_owned)).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn texts_are_those_of_their_parts() {
        let micros = [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (1_500_000, "1970-01-01 00:00:01.5"),
            (253_402_300_800_000_000, "10000-01-01 00:00:00"),
            (-62_135_596_800_000_001, "0000-12-31 23:59:59.999999"),
            (-62_167_219_200_000_001, "-0001-12-31 23:59:59.999999"),
        ];
        for (value, text) in micros {
            assert_eq!(texts(&Int64Array::from(vec![value]), 1_000_000).value(0), text);
        }
        for per_second in [1_i64, 1000, 1_000_000, 1_000_000_000] {
            let day = 86_400 * per_second;
            // Around the days that years begin with, from one text to the next of the same day.
            let mut values = vec![None, Some(i64::MIN), Some(i64::MAX), None];
            for days in
                [-4_371_588, -719_529, -719_528, -719_163, -719_162, -1, 0, 11_016, 2_932_896, 2_932_897]
            {
                let Some(begin) = day.checked_mul(days) else { continue };
                for beside in [-1, 0, 1, per_second - 1, per_second, day / 2, day - 1, day] {
                    values.push(begin.checked_add(beside));
                }
            }
            check(&values, per_second);
            let mut state = 1_u64;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.cast_signed()
            };
            let values: Vec<Option<i64>> = (0..20_000).map(|at| Some(random() >> (at % 40))).collect();
            check(&values, per_second);
        }
    }
}
