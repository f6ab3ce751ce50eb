"""What the tables of scripts/s3_faults.py may hold."""

import collections
import threading

# Bits of a row's id for its place in a batch; those above name the slot.
PLACE_BITS = 16


def value_of(number, place):
    """The value of a row, by its batch and its place in it."""
    return (number * 7919 + place * 104_729) % 1_000_003


class Batches:
    """How many rows each batch has that any writer ever sent."""

    def __init__(self):
        self.sizes, self.lock = {}, threading.Lock()

    def add(self, number, size):
        with self.lock:
            self.sizes[number] = size

    def size(self, number):
        return self.sizes[number]

    def found(self, rows):
        """Which batch stands in each slot of an answer, and what is wrong with it by itself."""
        slots, found, faults = collections.defaultdict(list), {}, []
        for row in rows:
            slots[row[0] >> PLACE_BITS << PLACE_BITS].append(row)
        for slot, there in slots.items():
            numbers, places = {row[1] for row in there}, sorted(row[0] - slot for row in there)
            number = max(numbers)
            found[slot] = number
            shown = f"{len(there)} rows of {sorted(map(hex, numbers))} in {slot:x}"
            if len(set(places)) < len(places):
                faults.append(("twice", shown))
            elif number not in self.sizes or any(row[3] != value_of(row[1], row[0] - slot) for row in there):
                faults.append(("wrong", shown))
            elif len(numbers) > 1 or places != list(range(self.sizes[number])) or {row[2] for row in there} != {len(there)}:
                faults.append(("half", f"{shown}, not {self.sizes[number]}"))
        return found, faults


class May(dict):
    """Slots, and the batches that may stand in each: the older first, 0 for none."""

    def compare(self, found, newest):
        """What an answer has that cannot be. Of two possibilities the newer one stays once it is seen."""
        faults = []
        for slot in self.keys() | found.keys():
            got, may = found.get(slot, 0), self.get(slot, (0,))
            if got not in may:
                kind = "refused" if slot not in self or may == (0,) else "stale" if got else "lost"
                faults.append((kind, f"batch {got:x} in {slot:x}, which may be {', '.join(f'{b:x}' for b in may)}"))
            elif newest and len(may) > 1 and got == may[-1]:
                self[slot] = (got,)
        return faults


class Held:
    """A writer's slots of one table, and of some of its versions."""

    def __init__(self):
        self.may, self.versions = May(), collections.deque(maxlen=30)
        self.acknowledged, self.in_doubt = 0, set()

    def sure(self):
        """Slots whose batch is known; one that was in doubt is left alone for good."""
        return [slot for slot, may in self.may.items() if may != (0,) and slot not in self.in_doubt]

    def batch(self, slot):
        return self.may.get(slot, (0,))[-1]

    def set(self, slot, number, version):
        self.may[slot] = (number,)
        self.acknowledged += 1
        if self.acknowledged % 4 == 0:
            self.versions.append((version, May(self.may)))

    def doubt(self, slot, number):
        self.may[slot] = (*self.may.get(slot, (0,)), number)
        self.in_doubt.add(slot)
