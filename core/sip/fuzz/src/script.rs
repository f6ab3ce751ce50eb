//! Sets from any bytes: each byte is a step of a short program that fills the id space from left to right.

/// The increasing ids that a script makes, `most` at most.
pub fn run(script: &[u8], most: usize) -> Vec<u64> {
    let mut bytes = script.iter().copied();
    let mut ids = Ids { ids: Vec::new(), next: Some(0), most };
    let mut step = (1, 1);
    while let Some(byte) = bytes.next() {
        let (kind, argument) = (byte >> 5, u64::from(byte & 31));
        let mut wide =
            |width: u64| (0..width).fold(0_u64, |wide, _| wide << 8 | u64::from(bytes.next().unwrap_or(0)));
        match kind {
            // A small gap and one id; a small run.
            0 => ids.push(argument, 1),
            1 => ids.push(1, argument + 1),
            // A gap of up to 8 bytes, then a run of up to 3 bytes.
            2 => ids.push(wide(argument % 9), 1 + wide(argument / 9)),
            // A step, and how often: short and long ones.
            3 => step = (wide(argument % 9), 1 + wide(argument / 16)),
            4 => (0..=argument).for_each(|_| ids.push(step.0, step.1)),
            5 => (0..argument * 16).for_each(|_| ids.push(step.0, step.1)),
            // On to the edge of a block, a bucket, a half of all; or a little less far.
            6 => {
                let width = [6, 7, 16, 17, 32, 33, 62, 63][usize::from(byte & 7)];
                ids.seek(width, argument >> 3);
            }
            // To the end of the id space, and some ids there.
            _ => ids.end(argument),
        }
    }
    ids.ids
}

struct Ids {
    ids: Vec<u64>,
    /// The least id that may follow.
    next: Option<u64>,
    most: usize,
}

impl Ids {
    /// Leaves `gap` ids out and takes `length`, if the id space has them.
    fn push(&mut self, gap: u64, length: u64) {
        let first = self.next.and_then(|next| next.checked_add(gap));
        let Some(first) = first else { return };
        let room = (self.most - self.ids.len()) as u64;
        let Some(more) = length.min(room).checked_sub(1) else { return };
        let last = first.saturating_add(more);
        self.ids.extend(first..=last);
        self.next = last.checked_add(1);
    }

    /// Goes on to `before` ids before the next multiple of 2^`width`.
    fn seek(&mut self, width: u32, before: u64) {
        let edge = self.next.map(|next| (next >> width) + 1).filter(|edge| *edge <= u64::MAX >> width);
        if let (Some(next), Some(edge)) = (self.next, edge) {
            self.next = Some(((edge << width) - before).max(next));
        }
    }

    fn end(&mut self, ids: u64) {
        if let Some(next) = self.next {
            self.next = Some(next.max(u64::MAX - ids));
            self.push(0, ids + 1);
        }
    }
}
