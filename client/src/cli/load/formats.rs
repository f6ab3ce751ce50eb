//! Dates and times as the files write them: ISO 8601, or as `--date-format` says.

use std::fmt::Write as _;

use arrow_schema::DataType;
use chrono::format::{Fixed, Item, Numeric, Parsed, StrftimeItems, parse};

use crate::{
    calendar,
    text::{Time, parse_date, parse_time},
};

/// The first year that is meant by its last two digits, in POSIX: 1969, so that the last one is 2068.
const FIRST_OF_TWO_DIGITS: i32 = 69;
const ITS_CENTURY: i64 = 19;

/// A form of dates or of timestamps, in the words of strftime.
#[derive(Clone, Debug)]
pub struct Format {
    items: Vec<Item<'static>>,
    has_time: bool,
}

impl Format {
    /// Reads `%d.%m.%Y` or `%d/%m/%Y %H:%M`.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no format like %d.%m.%Y or \"%m/%d/%Y %H:%M:%S\"");
        let items = StrftimeItems::new(text).parse_to_owned().map_err(|_| wrong())?;
        // What it parses is dropped: 10:00 EST would be 10:00 of UTC.
        if items.iter().any(|item| matches!(item, Item::Fixed(Fixed::TimezoneName))) {
            return Err(format!("{text:?}: names of time zones (%Z) are not read; %z and %:z read offsets"));
        }
        let has_time = items.iter().any(|item| match item {
            Item::Numeric(numeric, _) => matches!(
                numeric,
                Numeric::Hour
                    | Numeric::Hour12
                    | Numeric::Minute
                    | Numeric::Second
                    | Numeric::Nanosecond
                    | Numeric::Timestamp
            ),
            Item::Fixed(fixed) => !matches!(
                fixed,
                Fixed::ShortMonthName
                    | Fixed::LongMonthName
                    | Fixed::ShortWeekdayName
                    | Fixed::LongWeekdayName
            ),
            _ => false,
        });
        let says_something = items.iter().any(|item| matches!(item, Item::Numeric(..) | Item::Fixed(_)));
        if says_something { Ok(Self { items, has_time }) } else { Err(wrong()) }
    }

    fn parse(&self, text: &str) -> Option<Parsed> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter()).ok()?;
        // Chrono's first one is 1970.
        if parsed.year_mod_100() == Some(FIRST_OF_TWO_DIGITS)
            && parsed.year().is_none()
            && parsed.year_div_100().is_none()
        {
            parsed.set_year_div_100(ITS_CENTURY).ok()?;
        }
        Some(parsed)
    }

    /// Whether a text is a date or a timestamp as this form writes it, to the letter.
    fn is_of(&self, text: &str) -> bool {
        let Some(parsed) = self.parse(text) else { return false };
        let (items, mut written) = (self.items.iter(), String::new());
        // What is asked for that is not there, such as a zone, is an error.
        let done = match self.has_time {
            true => match parsed.to_naive_datetime_with_offset(0) {
                Ok(moment) => write!(written, "{}", moment.format_with_items(items)),
                Err(_) => return false,
            },
            false => match parsed.to_naive_date() {
                Ok(date) => write!(written, "{}", date.format_with_items(items)),
                Err(_) => return false,
            },
        };
        done.is_ok() && written == text
    }

    /// Whether any number is a time in this form: seconds since 1970.
    fn counts(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Numeric(Numeric::Timestamp, _)))
    }
}

/// The forms of dates and of timestamps. What is said of one takes the place of ISO 8601 for it, so that no text has
/// two meanings.
#[derive(Clone, Debug, Default)]
pub(super) struct Formats {
    dates: Vec<Format>,
    times: Vec<Format>,
}

impl Formats {
    pub(super) fn new(formats: &[Format]) -> Self {
        let (times, dates) = formats.iter().cloned().partition(|format| format.has_time);
        Self { dates, times }
    }

    /// Whether values of a type are read as said, and not as ISO 8601 has them.
    pub(super) fn replace(&self, data_type: &DataType) -> bool {
        !self.dates.is_empty() || (*data_type != DataType::Date32 && !self.times.is_empty())
    }

    /// Whether a text that could be a number is a date or a timestamp in one of the forms, to the letter: `20240101` is one as
    /// `%Y%m%d`, and `2024111` rather a number. So is every number beside `%s`, for all would be times.
    pub(super) fn is_said(&self, text: &str) -> bool {
        self.dates.iter().chain(&self.times).any(|format| !format.counts() && format.is_of(text))
    }

    /// A date as days since 1970-01-01.
    pub(super) fn date(&self, text: &str) -> Option<i32> {
        if self.dates.is_empty() {
            return parse_date(text);
        }
        let date = self.dates.iter().find_map(|format| format.parse(text)?.to_naive_date().ok())?;
        let days = date.signed_duration_since(chrono::NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days();
        i32::try_from(days).ok().filter(|&days| calendar::has_day(days))
    }

    /// A timestamp, cut to its microsecond towards the past; UTC without a zone. A date is its midnight.
    pub(super) fn timestamp(&self, text: &str) -> Option<Time> {
        self.moment(text).or_else(|| {
            let micros = i64::from(self.date(text)?).checked_mul(24 * 60 * 60 * 1_000_000)?;
            calendar::has_time(micros).then_some(Time { micros, was_cut: false })
        })
    }

    /// The same of a text that has a time: dates alone are not taken for timestamps unasked.
    pub(super) fn moment(&self, text: &str) -> Option<Time> {
        if self.times.is_empty() {
            return parse_time(text);
        }
        let (moment, offset) = self.times.iter().find_map(|format| {
            let parsed = format.parse(text)?;
            // A form without a zone is UTC.
            let offset = parsed.offset().unwrap_or(0);
            Some((parsed.to_naive_datetime_with_offset(offset).ok()?, offset))
        })?;
        let moment = moment.and_utc();
        let micros = moment.timestamp_micros().checked_sub(i64::from(offset) * 1_000_000)?;
        let was_cut = !moment.timestamp_subsec_nanos().is_multiple_of(1000);
        calendar::has_time(micros).then_some(Time { micros, was_cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::{Date, Timestamp};

    fn formats(texts: &[&str]) -> Formats {
        Formats::new(&texts.iter().map(|t| Format::new(t).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn dates_and_times_in_other_forms() {
        let forms = formats(&["%d.%m.%Y", "%d-%b-%y", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S%.f %z"]);
        let date = |text: &str| forms.date(text).map(|days| Date(days).to_string());
        assert_eq!(date("04.07.2013").as_deref(), Some("2013-07-04"));
        assert_eq!(date("4-Jul-13").as_deref(), Some("2013-07-04"));
        // What has a form of its own is read in no other, and a date is a day that there is.
        for bad in ["2013-07-04", "31.02.2013", "04.07.2013 ", "", "01.01.0000", "1.1.99999"] {
            assert_eq!(date(bad), None, "{bad}");
        }
        let time = |text: &str| forms.timestamp(text).map(|t| (Timestamp(t.micros).to_string(), t.was_cut));
        assert_eq!(time("7/4/2013 10:30 PM"), Some(("2013-07-04T22:30:00Z".to_owned(), false)));
        let berlin = time("04.07.2013 10:30:00.1234567 +0200");
        assert_eq!(berlin, Some(("2013-07-04T08:30:00.123456Z".to_owned(), true)));
        assert_eq!(time("2013-07-04T10:30:00Z"), None);
        assert_eq!(time("04.07.2013"), Some(("2013-07-04T00:00:00Z".to_owned(), false)));
        let iso = Formats::default().timestamp("2013-07-04").unwrap();
        assert_eq!(Timestamp(iso.micros).to_string(), "2013-07-04T00:00:00Z");
        assert_eq!(formats(&["%d.%m.%Y"]).timestamp("1970-01-01 00:00:01").unwrap().micros, 1_000_000);
    }

    #[test]
    fn names_of_zones_are_refused_and_offsets_are_read() {
        for text in ["%Y-%m-%d %H:%M:%S %Z", "%Z"] {
            let error = Format::new(text).unwrap_err();
            assert!(
                error.ends_with("names of time zones (%Z) are not read; %z and %:z read offsets"),
                "{error}"
            );
        }
        let forms = formats(&["%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S %:z"]);
        let time = |text: &str| forms.timestamp(text).map(|t| Timestamp(t.micros).to_string());
        for zone in ["-0500", "-05:00"] {
            let text = format!("2020-01-01 10:00:00 {zone}");
            assert_eq!(time(&text).as_deref(), Some("2020-01-01T15:00:00Z"), "{text}");
        }
    }

    #[test]
    fn years_of_two_digits_are_those_of_posix() {
        let forms = formats(&["%d.%m.%y", "%d.%m.%C%y", "%d.%m.%y %H:%M"]);
        let date = |text: &str| forms.date(text).map(|days| Date(days).to_string());
        for (text, expected) in [
            ("01.02.68", "2068-02-01"),
            ("01.02.69", "1969-02-01"),
            ("01.02.70", "1970-02-01"),
            ("01.02.99", "1999-02-01"),
            ("01.02.00", "2000-02-01"),
            ("01.02.2069", "2069-02-01"),
        ] {
            assert_eq!(date(text).as_deref(), Some(expected), "{text}");
        }
        let time = forms.timestamp("31.12.69 23:00").unwrap();
        assert_eq!(Timestamp(time.micros).to_string(), "1969-12-31T23:00:00Z");
    }

    #[test]
    fn numbers_are_dates_to_the_letter() {
        let forms = formats(&["%Y%m%d", "%Y%m%d%H%M%S", "%y%m%d", "%s", "%Y%m%d%H%M%z"]);
        for text in ["20240229", "20240229235959", "240229", "690101"] {
            assert!(forms.is_said(text), "{text}");
        }
        for text in ["2024111", "20240230", "1700000000", "5", "-20240229", "2024.0", "202402292359+0000", ""]
        {
            assert!(!forms.is_said(text), "{text}");
        }
        assert!(!Formats::default().is_said("20240229"));
    }

    #[test]
    fn formats_that_say_nothing() {
        for bad in ["", "%", "%Q", "date", "%%"] {
            assert!(Format::new(bad).is_err(), "{bad}");
        }
    }
}
