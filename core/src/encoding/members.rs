//! Sets of keys, prepared for many look-ups.

use std::sync::{Arc, OnceLock};

use basalt_sip::Sip;

use super::{
    bytes::index,
    id_keys::{IdKeys, count},
    mask,
    member_form::Form,
};
use crate::{error::Result, invariant::Invariant};

/// A set of keys.
///
/// What came as a SIP is looked up there until [`prepare`](Self::prepare) has made a form that is faster.
#[derive(Debug)]
pub struct Members {
    ids: Option<(Arc<Sip>, IdKeys)>,
    /// That of the keys of a range, or of all.
    form: OnceLock<(Range, Form)>,
    /// That of all keys, once keys are looked up beyond that range; `None`: there is none.
    all: OnceLock<Option<Form>>,
}

/// From one key to another.
type Range = (i64, i64);

const ALL: Range = (i64::MIN, i64::MAX);

/// Words of a bitmap that tell how many keys there are, about.
const SAMPLE_WORDS: usize = 64;
/// A form takes at most 1 MiB, ...
const FORM_BYTES: usize = 1 << 20;
/// ... or so many bytes for each row that is looked up: more would take longer to make than look-ups in the SIP.
const FORM_BYTES_OF_ROW: usize = 128;
impl Members {
    /// The set of sorted distinct keys.
    pub fn new(keys: Vec<i64>) -> Self {
        Self { ids: None, form: OnceLock::from((ALL, Form::new(keys))), all: OnceLock::new() }
    }

    /// The set of the keys that are ids in a SIP.
    pub fn of_sip(sip: Arc<Sip>, ids: IdKeys) -> Self {
        Self { ids: Some((sip, ids)), form: OnceLock::new(), all: OnceLock::new() }
    }

    /// Finds the fastest form for look-ups of the keys of `rows` rows, from `min` to `max`: all others may be left
    /// out. There is none for few rows beside many keys, which a SIP can stand for in a few bytes. `hold` is
    /// called again and again with the bytes that the form takes, and its error ends the preparation.
    ///
    /// One set may be prepared for the rows of one part of a table after the other. Beyond the range of the first all keys
    /// are kept, or looked up in the SIP.
    ///
    /// # Errors
    /// Those of `hold`.
    pub fn prepare(
        &self,
        rows: u64,
        (min, max): Range,
        hold: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let Some((sip, ids)) = &self.ids else { return Ok(()) };
        let most = index(rows).saturating_mul(FORM_BYTES_OF_ROW).max(FORM_BYTES);
        if self.form.get().is_none()
            && let Some(form) = Form::of_sip(sip, *ids, (min, max), most, hold)?
        {
            let _ = self.form.set(((min, max), form));
        }
        if let Some(((first, last), _)) = self.form.get()
            && min <= max
            && (min < *first || max > *last)
            && self.all.get().is_none()
        {
            let before = self.bytes();
            let _ = self.all.set(Form::of_sip(sip, *ids, ALL, most, &mut |bytes| hold(before + bytes))?);
        }
        match self.bytes() {
            0 => Ok(()),
            bytes => hold(bytes),
        }
    }

    /// Whether `key` is in the set.
    pub fn contains(&self, key: i64) -> bool {
        match self.form() {
            Some(form) => form.contains(key),
            None => {
                let (sip, ids) = self.ids();
                ids.id(key).is_some_and(|id| sip.contains(id))
            }
        }
    }

    /// The ids of a set that has no form.
    fn ids(&self) -> &(Arc<Sip>, IdKeys) {
        self.ids.as_ref().invariant("a set without a form is ids of a SIP")
    }

    /// Bytes of the forms that there are.
    pub fn bytes(&self) -> usize {
        let both = [self.form.get().map(|(_, form)| form), self.all.get().and_then(Option::as_ref)];
        both.into_iter().flatten().map(Form::bytes).sum()
    }

    /// The form, once there is one.
    pub(super) fn form(&self) -> Option<&Form> {
        match self.all.get() {
            Some(all) => all.as_ref(),
            None => self.form.get().map(|(_, form)| form),
        }
    }

    /// The members from `min` to `max`, in order, where they are known to be at most `most`.
    pub(super) fn keys_between(&self, (min, max): (i64, i64), most: usize) -> Option<Vec<i64>> {
        let keys = match self.form()? {
            Form::Sorted { keys, .. } => {
                let from = keys.partition_point(|&key| key < min);
                let n = keys[from..].partition_point(|&key| key <= max);
                return (n <= most).then(|| keys[from..from + n].to_vec());
            }
            Form::Bits { first, words } => {
                let last = first.saturating_add_unsigned(64 * words.len() as u64 - 1);
                if max < *first || min > last {
                    return Some(Vec::new());
                }
                let place = |key: i64| index(key.clamp(*first, last).wrapping_sub(*first).cast_unsigned());
                let (from, to) = (place(min), place(max));
                if mask::count_range(Some(words), from, to + 1) > most {
                    return None;
                }
                let words = &words[from / 64..=to / 64];
                let base = first.wrapping_add_unsigned((from / 64 * 64) as u64);
                let mut keys = Vec::new();
                basalt_kernels::mask::for_each(words, |bit| {
                    keys.push(base.wrapping_add_unsigned(bit as u64))
                });
                keys
            }
        };
        Some(keys.into_iter().filter(|key| (min..=max).contains(key)).collect())
    }

    /// How many keys from `min` to `max` are members, about.
    pub fn count(&self, min: i64, max: i64) -> u64 {
        match self.form() {
            None => {
                let (sip, ids) = self.ids();
                ids.halves(min, max).map(|ids| count(sip, &ids)).sum()
            }
            Some(Form::Sorted { keys, .. }) => {
                let from = keys.partition_point(|&key| key < min);
                keys[from..].partition_point(|&key| key <= max) as u64
            }
            Some(Form::Bits { first, words }) => {
                let last = first.saturating_add_unsigned(64 * words.len() as u64 - 1);
                if max < *first || min > last {
                    return 0;
                }
                let word =
                    |key: i64| index(key.clamp(*first, last).wrapping_sub(*first).cast_unsigned() / 64);
                let words = &words[word(min)..=word(max)];
                let step = words.len().div_ceil(SAMPLE_WORDS);
                let sample: u64 = words.iter().step_by(step).map(|word| u64::from(word.count_ones())).sum();
                sample * step as u64
            }
        }
    }

    /// Whether none, or all, of the keys from `min` to `max` are members, where that is known.
    pub fn among(&self, min: i64, max: i64) -> (bool, bool) {
        match self.form() {
            None => {
                let (sip, ids) = self.ids();
                let n: u64 = ids.halves(min, max).map(|ids| count(sip, &ids)).sum();
                (n == 0, n != 0 && n - 1 == max.wrapping_sub(min).cast_unsigned())
            }
            Some(Form::Sorted { keys, .. }) => {
                let from = keys.partition_point(|&key| key < min);
                let n = keys[from..].partition_point(|&key| key <= max) as u64;
                (n == 0, n != 0 && n - 1 == max.wrapping_sub(min).cast_unsigned())
            }
            Some(Form::Bits { first, words }) => {
                let last = first.saturating_add_unsigned(64 * words.len() as u64 - 1);
                if max < *first || min > last {
                    return (true, false);
                }
                let inside = *first <= min && max <= last;
                let place = |key: i64| index(key.clamp(*first, last).wrapping_sub(*first).cast_unsigned());
                let (from, to) = (place(min), place(max));
                (!mask::any(words, from, to, false), inside && !mask::any(words, from, to, true))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::{KeyTest, id_keys::TOP, member_form::in_bits},
        *,
    };

    const IDS: [IdKeys; 4] = [
        IdKeys { flipped: false, half: false },
        IdKeys { flipped: false, half: true },
        IdKeys { flipped: true, half: false },
        IdKeys { flipped: true, half: true },
    ];

    /// Sets of ids: few, dense, scattered, on both sides of 2^63 and at the ends.
    fn sets() -> Vec<Vec<u64>> {
        let scattered = |n: u64| (0..n).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect::<Vec<_>>();
        let ends = vec![0, 1, TOP - 1, TOP, TOP + 1, u64::MAX - 1, u64::MAX];
        let around = (TOP - 70_000..TOP + 70_000).step_by(3).collect();
        let negative = (u64::MAX - 90_000..=u64::MAX).chain(0..90_000).collect();
        let far = (0..5000).map(|i| i * 9_000_000).collect();
        vec![
            vec![],
            vec![7],
            ends,
            (10..90_000).collect(),
            scattered(10),
            scattered(3000),
            around,
            negative,
            far,
        ]
    }

    /// Keys to ask about: members and their neighbours.
    fn probes(keys: &BTreeSet<i64>) -> Vec<i64> {
        let some = keys.iter().step_by(1 + keys.len() / 300).chain(keys.last());
        let near = some.flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]);
        near.chain([i64::MIN, -1, 0, 1, i64::MAX]).collect()
    }

    #[test]
    fn every_form_of_a_sip_has_its_keys() {
        let mut forms = BTreeSet::new();
        for of in sets() {
            let sip = Arc::new(Sip::from_ids(of.iter().copied()));
            for ids in IDS {
                let keys: BTreeSet<i64> = of.iter().filter_map(|id| ids.key(*id)).collect();
                assert!(keys.iter().all(|key| ids.id(*key).and_then(|id| ids.key(id)) == Some(*key)));
                let test = KeyTest::of_sip(&sip, ids);
                for key in probes(&keys) {
                    assert_eq!(test.passes(key), keys.contains(&key), "{key} {ids:?} {sip:?}");
                }
                for (min, max) in
                    [(i64::MIN, i64::MAX), (-80_000, 80_000), (0, i64::MAX), (i64::MIN, -5), (40_000, 40_010)]
                {
                    let members = Members::of_sip(Arc::clone(&sip), ids);
                    let before = members.among(min, max);
                    let mut most = 0;
                    let mut hold = |bytes: usize| {
                        most = bytes.max(most);
                        Ok(())
                    };
                    members.prepare(1 << 20, (min, max), &mut hold).unwrap();
                    let form = members.form().unwrap();
                    assert!(most >= form.bytes());
                    forms.insert(match form {
                        Form::Bits { .. } => "bits",
                        Form::Sorted { table: None, .. } => "sorted",
                        Form::Sorted { .. } => "hashed",
                    });
                    for from in [min, max, keys.first().copied().unwrap_or(0)] {
                        for from in
                            [from, from.wrapping_sub(1), from.wrapping_sub(130), from.wrapping_add(77)]
                        {
                            let Form::Bits { first, words } = form else { continue };
                            let mut bits = [7; 5];
                            form.bits_from(from, &mut bits);
                            for (i, key) in (0..320).filter_map(|i| Some((i, from.checked_add(i)?))) {
                                let bit = bits[usize::try_from(i).unwrap() / 64] >> (i % 64) & 1 == 1;
                                assert_eq!(bit, in_bits(*first, words, key), "{from} {i} {form:?}");
                            }
                        }
                    }
                    let inside: Vec<i64> = keys.range(min..=max).copied().collect();
                    let all = inside.len() as u128 == u128::from(max.abs_diff(min)) + 1;
                    assert_eq!(before, (inside.is_empty(), all), "{min}..={max} {ids:?} {sip:?}");
                    for key in probes(&keys).into_iter().filter(|key| (min..=max).contains(key)) {
                        assert_eq!(members.contains(key), keys.contains(&key), "{key} {ids:?} {sip:?}");
                        let (lo, hi) = (key.saturating_sub(2).max(min), key.saturating_add(1).min(max));
                        let n = keys.range(lo..=hi).count() as u64;
                        let expected = (n == 0, n == hi.abs_diff(lo) + 1);
                        assert_eq!(members.among(lo, hi), expected, "{lo}..={hi} {ids:?} {sip:?}");
                        if let Some(part) = members.within(lo, hi) {
                            assert!((lo..=hi).all(|key| part.passes(key) == keys.contains(&key)));
                        }
                    }
                }
            }
        }
        assert_eq!(forms, ["bits", "hashed", "sorted"].into());
    }

    #[test]
    fn a_set_that_was_prepared_for_some_keys_has_the_others_too() {
        for (of, most) in
            [((0..200_000).step_by(7).collect::<Vec<u64>>(), 1 << 20), (vec![5, 9, 4000], 1 << 20)]
                .into_iter()
                .chain([((0..1 << 20).map(|i| i << 40 | i).collect(), 1)])
        {
            let sip = Arc::new(Sip::from_ids(of.iter().copied()));
            let members = Members::of_sip(sip, IDS[0]);
            let mut held = 0;
            let mut hold = |bytes| {
                held = bytes;
                Ok(())
            };
            // As the rows of a table come: some, more beyond, those again, and none.
            for range in [(0, 70), (500, 10_000), (0, 70), (1, 0), (-5, i64::MAX)] {
                members.prepare(most, range, &mut hold).unwrap();
                let asked = of.iter().map(|id| id.cast_signed()).flat_map(|key| [key, key + 1]).take(3000);
                for key in asked.filter(|key| (range.0..=range.1).contains(key)) {
                    assert_eq!(
                        members.contains(key),
                        of.contains(&key.cast_unsigned()),
                        "{key} of {range:?}"
                    );
                }
            }
            assert_eq!(held, members.bytes());
        }
    }

    #[test]
    fn a_set_without_memory_is_an_error_and_stays_as_it_is() {
        let sip = Arc::new(Sip::from_ids((0..100_000).step_by(2)));
        let members = Members::of_sip(sip, IDS[0]);
        let mut none = |bytes| {
            let error = crate::error::Error::new(crate::error::ErrorKind::MemoryLimit, "none");
            if bytes > 0 { Err(error) } else { Ok(()) }
        };
        members.prepare(1, (0, i64::MAX), &mut none).unwrap_err();
        assert!(members.form().is_none() && members.contains(4) && !members.contains(5));
    }

    #[test]
    fn many_keys_beside_few_rows_stay_in_the_sip() {
        // Bits that take half a GiB, and a list that takes gigabytes.
        let dense = Sip::from_ranges([0..=1 << 31, (1 << 31) + 5..=u64::from(u32::MAX)]);
        let sparse = Sip::from_ranges((0..60_000).map(|i: u64| i << 26..=(i << 26) + 65_000));
        for sip in [dense, sparse] {
            let members = Members::of_sip(Arc::new(sip), IDS[0]);
            let mut hold = |bytes| panic!("{bytes} bytes are held");
            members.prepare(1000, (i64::MIN, i64::MAX), &mut hold).unwrap();
            assert!(members.form().is_none());
            assert!(members.contains(7) && !members.contains(1 << 45) && !members.contains(-7));
            assert_eq!(members.among(-5, -1), (true, false));
        }
    }
}
