//! Texts of one form, such as `id0000012345`: short ones, whose bytes lie within narrow ranges place by place. Such a text is
//! a number whose digits have a radix of their own at each place, and these numbers have the order of the texts, so that
//! nothing is hashed, kept or compared. What is not of the form has its place between those that are.

use super::{control::Control, sorted_texts::SortedTexts};
use crate::{
    error::Result,
    invariant::{Invariant, count, index},
};

/// Bytes of a text that has a form.
const FORM: usize = 32;
/// Numbers, at most.
const NUMBERS: u64 = 1 << 31;
/// Numbers for each row, at most: a bit each says which there are.
const NUMBERS_OF_ROW: u64 = 16;

/// Places and the bytes that texts have there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Bytes of the shortest text: up to there no text has ended.
    shortest: usize,
    places: Vec<Place>,
    size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    low: u8,
    /// How far bytes are from the least, at most.
    span: u8,
    /// What a digit counts; 0 where there is but one.
    weight: u32,
    /// What is counted where the text has not ended, beside the digit.
    begun: u32,
}

/// The bytes that the texts of a sample have at each place.
#[derive(Debug, Default)]
pub(super) struct Sample {
    ranges: Vec<(u8, u8)>,
    shortest: Option<usize>,
}

impl Sample {
    /// Takes a text in, unless it is too long for a form.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let (ranges, bytes) = (&mut self.ranges, text.as_bytes());
        if bytes.len() > FORM {
            return false;
        }
        // Default: it is the first.
        self.shortest = Some(self.shortest.unwrap_or(bytes.len()).min(bytes.len()));
        for (range, byte) in ranges.iter_mut().zip(bytes) {
            *range = (range.0.min(*byte), range.1.max(*byte));
        }
        // Default: a text that is not longer has no other places.
        ranges.extend(bytes.get(ranges.len()..).unwrap_or_default().iter().map(|byte| (*byte, *byte)));
        true
    }
}

impl Form {
    /// The form of a sample of so many rows, where the numbers are not too many for these.
    pub(super) fn of(Sample { ranges, shortest }: &Sample, rows: usize) -> Option<Self> {
        let shortest = (*shortest)?;
        let most = NUMBERS.min((rows as u64).saturating_mul(NUMBERS_OF_ROW));
        let mut places = Vec::with_capacity(ranges.len());
        let mut weight = 1_u64;
        for (place, (low, high)) in ranges.iter().enumerate().rev() {
            // Where digits differ, a sample need not have had all of them.
            let are_digits = low != high && low.is_ascii_digit() && high.is_ascii_digit();
            let (low, high) = if are_digits { (b'0', b'9') } else { (*low, *high) };
            let ends = place >= shortest;
            let radix = u64::from(high - low) + 1 + u64::from(ends);
            let counts = u32::try_from(weight).ok()?;
            places.push(Place {
                low,
                span: high - low,
                weight: if radix > 1 { counts } else { 0 },
                begun: if ends { counts } else { 0 },
            });
            weight = weight.saturating_mul(radix);
            if weight > most {
                return None;
            }
        }
        places.reverse();
        let size = u32::try_from(weight).ok()?;
        (!places.is_empty()).then_some(Self { shortest, places, size })
    }

    /// Bytes that [`Used`] and [`Ranks`] hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.words() * (size_of::<u64>() + size_of::<u32>())
    }

    /// Words with a bit for each number.
    fn words(&self) -> usize {
        index(self.size.into()).div_ceil(64)
    }

    /// What numbers are below.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The number of a text; `None`: it is not of this form.
    #[inline]
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        let bytes = text.as_bytes();
        if bytes.len() < self.shortest || bytes.len() > self.places.len() {
            return None;
        }
        let (mut number, mut is_out) = (0, false);
        for (place, byte) in self.places.iter().zip(bytes) {
            let digit = byte.wrapping_sub(place.low);
            is_out |= digit > place.span;
            // What is out counts for nothing, and may be as large as it likes.
            number =
                place.weight.wrapping_mul(u32::from(digit)).wrapping_add(place.begun).wrapping_add(number);
        }
        (!is_out).then_some(number)
    }

    /// The text of a number.
    fn text(&self, mut number: u32, bytes: &mut Vec<u8>) {
        bytes.clear();
        for place in &self.places {
            // Default: a place that counts nothing has one byte in all texts.
            let digit = number.checked_div(place.weight).unwrap_or(0);
            number -= digit * place.weight;
            match (place.begun, digit) {
                (0, digit) => bytes.push(place.byte(digit)),
                (_, 0) => return,
                (_, digit) => bytes.push(place.byte(digit - 1)),
            }
        }
    }
}

impl Place {
    fn byte(self, digit: u32) -> u8 {
        self.low + u8::try_from(digit).invariant("a digit is a distance of bytes")
    }
}

/// The numbers of a form that there are.
#[derive(Debug)]
pub(super) struct Used {
    form: Form,
    words: Vec<u64>,
}

impl Used {
    pub(super) fn new(form: Form) -> Self {
        Self { words: vec![0; form.words()], form }
    }

    /// The number of a text, which there is from now on.
    #[inline]
    pub(super) fn add(&mut self, text: &str) -> Option<u32> {
        let number = self.form.number(text)?;
        self.words[number as usize / 64] |= 1 << (number % 64);
        Some(number)
    }

    /// Bytes of the texts in their order; what holds them doubles as it grows.
    pub(super) fn sorted_bytes(&self) -> usize {
        let texts = index(basalt_kernels::mask::count_ones(&self.words));
        2 * texts * (self.form.places.len() + size_of::<usize>())
    }

    /// All texts in their order, these and some others, which are in theirs; and their places there.
    pub(super) fn sorted<'t>(
        self,
        mut others: impl ExactSizeIterator<Item = &'t str>,
        control: &Control,
    ) -> Result<(SortedTexts, Ranks)> {
        let (mut all, mut text) = (SortedTexts::default(), Vec::new());
        let mut before = Vec::with_capacity(self.words.len());
        let (mut behind, mut of_others) = (Vec::new(), Vec::with_capacity(others.len()));
        let mut other = others.next();
        let mut ones = 0;
        for (at, word) in (0_u32..).zip(&self.words) {
            if at.is_multiple_of(CHECKED) {
                control.check()?;
            }
            before.push(ones);
            ones += word.count_ones();
            let mut left = *word;
            while left != 0 {
                let number = at * u64::BITS + left.trailing_zeros();
                left &= left - 1;
                self.form.text(number, &mut text);
                let text = std::str::from_utf8(&text).ok().invariant("it is the text that gave the number");
                while let Some(first) = other.filter(|other| *other < text) {
                    behind.push(number);
                    of_others.push(count(all.len()));
                    all.push(first);
                    other = others.next();
                }
                all.push(text);
            }
        }
        let behind_all = count(all.len());
        all.extend(other.into_iter().chain(others), control)?;
        of_others.extend(behind_all..count(all.len()));
        Ok((all, Ranks { words: self.words, before, behind, others: of_others, size: self.form.size }))
    }
}

/// Words between two looks at whether the query goes on.
const CHECKED: u32 = 1 << 10;

/// The places of texts among all in their order.
#[derive(Debug)]
pub(super) struct Ranks {
    words: Vec<u64>,
    /// Numbers that there are before each word.
    before: Vec<u32>,
    /// The number that stands behind each of the others.
    behind: Vec<u32>,
    /// The place of each of the others.
    others: Vec<u32>,
    size: u32,
}

impl Ranks {
    /// The place of a number; from the size of the form on they stand for the others, in their order.
    #[inline]
    pub(super) fn of(&self, number: u32) -> u32 {
        if let Some(other) = number.checked_sub(self.size) {
            return self.others[other as usize];
        }
        let at = number as usize / 64;
        let own = self.words[at] & ((1 << (number % 64)) - 1);
        let others = match self.behind.is_empty() {
            true => 0,
            false => count(self.behind.partition_point(|behind| *behind <= number)),
        };
        self.before[at] + own.count_ones() + others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form_of(texts: &[&str], rows: usize) -> Option<Form> {
        let mut sample = Sample::default();
        texts.iter().all(|text| sample.add(text)).then(|| Form::of(&sample, rows))?
    }

    fn form(texts: &[&str]) -> Option<Form> {
        form_of(texts, 1 << 20)
    }

    #[test]
    fn numbers_have_the_order_of_texts() {
        for sample in [
            &["id0017", "id0923", "id1905"][..],
            &["", "a", "ab", "b", "bb"],
            &["a", "a\0", "a\0b", "\0"],
            &["xä", "xö", "xü"],
            &["same"],
        ] {
            let form = form(sample).unwrap();
            let mut texts = sample.to_vec();
            texts.sort_unstable();
            let numbers: Vec<u32> = texts.iter().map(|text| form.number(text).unwrap()).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{texts:?} {numbers:?}");
            assert!(numbers.iter().all(|number| *number < form.size()));
            let mut bytes = Vec::new();
            for (text, number) in texts.iter().zip(numbers) {
                form.text(number, &mut bytes);
                assert_eq!(bytes, text.as_bytes());
            }
        }
    }

    #[test]
    fn a_sample_need_not_have_all_digits() {
        let form = form(&["id0037", "id0042"]).unwrap();
        assert_eq!(form.size(), 100);
        assert_eq!(form.number("id0099"), Some(99));
        for other in ["id0100", "id009", "id00999", "ie0099", "id00a0", ""] {
            assert_eq!(form.number(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_would_be_too_many_numbers_is_no_form() {
        assert!(form(&["00000000", "99999999"]).is_none());
        assert!(form_of(&["0000", "9999"], 100).is_none());
        assert!(form_of(&["0000", "9999"], 1000).is_some());
        assert!(form(&[&"x".repeat(FORM + 1)]).is_none());
        assert!(form(&[]).is_none());
        assert!(form(&[""]).is_none());
    }

    #[test]
    fn all_texts_are_in_order_with_what_is_of_no_form() {
        let mut used = Used::new(form(&["b100", "b999"]).unwrap());
        let own: Vec<String> = (0..1000).step_by(7).map(|n| format!("b{n:03}")).collect();
        let numbers: Vec<u32> = own.iter().map(|text| used.add(text).unwrap()).collect();
        let others = ["", "a", "b", "b0131", "b98", "c", "longer than the others"];
        assert!(others.iter().all(|text| used.add(text).is_none()));
        let size = used.form.size();
        let (all, ranks) = used.sorted(others.iter().copied(), &Control::default()).unwrap();
        let mut expected: Vec<&str> = own.iter().map(String::as_str).chain(others).collect();
        expected.sort_unstable();
        let found: Vec<&str> = (0..all.len()).map(|at| all.get(at)).collect();
        assert_eq!(found, expected);
        for (text, number) in own.iter().zip(numbers) {
            assert_eq!(all.get(ranks.of(number) as usize), text);
        }
        for (number, text) in (size..).zip(others) {
            assert_eq!(all.get(ranks.of(number) as usize), text);
        }
    }

    #[test]
    fn texts_in_their_order_take_no_more_than_is_said() {
        for n in [1, 7, 1000, 5000] {
            let texts: Vec<String> = (0..n).map(|at| format!("{at:04}")).collect();
            let mut used = Used::new(form(&["0000", "9999"]).unwrap());
            assert!(texts.iter().all(|text| used.add(text).is_some()));
            // What holds a few is larger at once.
            let said = used.sorted_bytes() + 64;
            let (all, _) = used.sorted(std::iter::empty(), &Control::default()).unwrap();
            assert!(all.size() <= said, "{n}: {} bytes, {said} said", all.size());
        }
    }
}
