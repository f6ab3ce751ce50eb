"""Reads SIP/1, a set of 64-bit ids in bytes, as FORMAT.md says: `ranges(bytes)` are its intervals of ids.

It is short and slow, to show that the document suffices; `check_vectors.py` runs it over `testdata/`.
"""

BODY_BYTES, CARDINALITY, DECODED_BYTES, BUCKETS = 1 << 26, 1 << 32, 1 << 28, 1 << 18
LAST_ID = (1 << 64) - 1


class SipError(ValueError):
    """What is wrong, by its name in FORMAT.md, and at which byte."""

    def __init__(self, name, at):
        super().__init__(f"{name} at byte {at}")
        self.name = name


def require(condition, name, at):
    if not condition:
        raise SipError(name, at)


class Reader:
    """Bytes, and the place of the next one."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        require(n <= len(self.data) - self.at, "Truncated", self.at)
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, n):
        return int.from_bytes(self.take(n), "little")

    def varint(self):
        at, value, shift = self.at, 0, 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            require(value <= LAST_ID, "Overflow", at)
            if byte < 0x80:
                require(byte > 0 or shift == 0, "VarintTooLong", at)
                return value
            shift += 7
            require(shift < 70, "Overflow", at)


def ranges(data):
    """First and last id of each interval of the set, in order; no two of them touch."""
    reader = Reader(data)
    tag = reader.number(1)
    require(tag < 5, "UnknownTag", 0)
    require(len(data) - 1 <= BODY_BYTES, "LimitExceeded", 1)
    found = [lambda _: [], roaring, varint_delta, rice_ranges, rice_gaps][tag](reader)
    require(reader.at == len(data), "TrailingBytes", reader.at)
    return joined(found)


def joined(intervals):
    whole = []
    for first, last in intervals:
        if whole and whole[-1][1] + 1 == first:
            first = whole.pop()[0]
        whole.append((first, last))
    return whole


def read_count(reader, size):
    """A number of ids or ranges, each of which takes `size` bytes when it is decoded."""
    count = reader.varint()
    require(count > 0, "Empty", 1)
    require(count <= CARDINALITY and count * size <= DECODED_BYTES, "LimitExceeded", 1)
    return count


def varint_delta(reader):
    found, id = [], 0
    for i in range(read_count(reader, 8)):
        at = reader.at
        difference = reader.varint()
        require(difference > 0 or i == 0, "Order", at)
        id += difference
        require(id <= LAST_ID, "Overflow", at)
        found.append((id, id))
    return found


def bits(data):
    return [byte >> bit & 1 for byte in data for bit in range(8)]


def rice_group(reader, count):
    start = reader.at
    k = reader.number(1)
    require(k <= 63, "Parameter", start)
    lows = bits(reader.take((count * k + 7) // 8))
    require(not any(lows[count * k :]), "Padding", start)
    numbers, unary = [], []
    for _ in range(count):
        numbers.append(0)
        while not (unary := unary or bits(reader.take(1))).pop(0):
            numbers[-1] += 1
            require(numbers[-1] <= 16, "Unary", start)
    require(not any(unary), "Padding", start)
    for i, high in enumerate(numbers):
        high += reader.varint() if high == 16 else 0
        low = sum(bit << place for place, bit in enumerate(lows[i * k : i * k + k]))
        numbers[i] = high << k | low
        require(numbers[i] <= LAST_ID, "Overflow", start)
    median = sorted(numbers)[(count + 1) // 2 - 1]
    least = next((k for k in range(63) if 2 * median < 3 << k), 63)
    require(k == least, "Parameter", start)
    return numbers


def rice_ranges(reader, lengths=True):
    found, cardinality, next_id = [], 0, 0
    left = read_count(reader, 16 if lengths else 8)
    while left > 0:
        at, count = reader.at, min(128, left)
        gaps = rice_group(reader, count)
        for gap, more in zip(gaps, rice_group(reader, count) if lengths else [0] * count):
            first = next_id + gap
            require(first + more <= LAST_ID, "Overflow", at)
            cardinality += more + 1
            require(cardinality <= CARDINALITY, "LimitExceeded", at)
            found.append((first, first + more))
            next_id = first + more + (2 if lengths else 1)
        left -= count
    return found


def rice_gaps(reader):
    return rice_ranges(reader, lengths=False)


def roaring(reader):
    buckets = reader.number(8)
    require(buckets > 0, "Empty", 1)
    require(buckets <= BUCKETS, "LimitExceeded", 1)
    found, last_key, cardinality, decoded = [], -1, 0, len(reader.data) - 1 + 128 * buckets
    for _ in range(buckets):
        at = reader.at
        key = reader.number(4)
        require(key > last_key, "Order", at)
        last_key, (start, containers) = key, bitmap_header(reader)
        decoded += 64 * len(containers)
        require(decoded <= DECODED_BYTES, "LimitExceeded", at)
        for container_key, count, has_runs, offset in containers:
            require(offset in (None, reader.at - start), "Offset", reader.at)
            cardinality += count
            require(cardinality <= CARDINALITY, "LimitExceeded", reader.at)
            base = key << 32 | container_key << 16
            found += [(base + first, base + last) for first, last in container(reader, count, has_runs)]
    return found


def bitmap_header(reader):
    """Where a 32-bit bitmap begins, and of each container its key, ids, whether it holds runs, and offset."""
    start = reader.at
    cookie = reader.number(4)
    if cookie & 0xFFFF == 12347:
        n = (cookie >> 16) + 1
        flags = bits(reader.take((n + 7) // 8))
        require(not any(flags[n:]), "RunFlags", reader.at - 1)
        require(any(flags), "Cookie", start)
    else:
        require(cookie == 12346, "Cookie", start)
        n, flags = reader.number(4), None
        require(n > 0, "Empty", start + 4)
        require(n <= 1 << 16, "ContainerCount", start + 4)
    described = [(reader.number(2), reader.number(2) + 1) for _ in range(n)]
    require(all(a < b for (a, _), (b, _) in zip(described, described[1:])), "Order", start)
    offsets = [reader.number(4) for _ in range(n)] if flags is None or n >= 4 else [None] * n
    flags = flags or [0] * n
    return start, [(key, count, flags[i], offsets[i]) for i, (key, count) in enumerate(described)]


def container(reader, count, has_runs):
    at = reader.at
    if has_runs:
        runs = []
        for _ in range(reader.number(2)):
            first = reader.number(2)
            last = first + reader.number(2)
            require(last < 1 << 16 and (not runs or first > runs[-1][1] + 1), "Run", at)
            runs.append((first, last))
    elif count <= 4096:
        offsets = [reader.number(2) for _ in range(count)]
        require(all(a < b for a, b in zip(offsets, offsets[1:])), "Order", at)
        runs = joined((offset, offset) for offset in offsets)
    else:
        runs = joined((i, i) for i, bit in enumerate(bits(reader.take(8192))) if bit)
    require(sum(last - first + 1 for first, last in runs) == count, "Cardinality", at)
    smallest = 2 + 4 * len(runs) < min(2 * count, 8192)
    require(bool(has_runs) == smallest, "ContainerKind", at)
    return runs
