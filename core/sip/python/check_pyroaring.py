"""Compares the vectors with what pyroaring (CRoaring) writes and reads: tag 0x01, and deletion vectors.

`check_pyroaring.py --write` writes the deletion vectors in `testdata/` again, as other libraries leave them: plain
containers, run-optimised ones, and a bitmap for each bucket up to the last, most of them empty.
"""

import pathlib
import sys
import zlib

import sip
from pyroaring import BitMap, BitMap64

testdata = pathlib.Path(__file__).parent.parent / "testdata"
DELETION_VECTORS = [
    "empty",
    "zero",
    "4-ids-in-1-runs",
    "4096-ids-in-4096-runs",
    "65535-ids-in-2-runs",
    "first-block",
    "block-edges",
    "4-containers-of-arrays-and-runs",
    "17-containers-of-runs",
    "period-65536",
    "runs-of-about-64",
    "sparse-1000",
]


def ids(data):
    return [id for first, last in sip.ranges(data) for id in range(first, last + 1)]


def bitmap64(ids, optimise):
    return BitMap64(ids, optimize=optimise).serialize()


def with_empty_bitmaps(ids):
    bitmaps = [BitMap() for _ in range((ids[-1] >> 32) + 1 if ids else 0)]
    for id in ids:
        bitmaps[id >> 32].add(id & 0xFFFFFFFF)
    parts = [key.to_bytes(4, "little") + bitmap.serialize() for key, bitmap in enumerate(bitmaps)]
    return len(parts).to_bytes(8, "little") + b"".join(parts)


def blob(positions):
    hashed = bytes.fromhex("d1d33964") + positions
    return len(hashed).to_bytes(4, "big") + hashed + zlib.crc32(hashed).to_bytes(4, "big")


def deletion_vectors():
    for name in DELETION_VECTORS:
        positions = ids((testdata / "valid" / f"{'00' if name == 'empty' else '01'}-{name}.sip").read_bytes())
        yield f"{name}.plain.bin", blob(bitmap64(positions, False))
        yield f"{name}.runs.bin", blob(bitmap64(positions, True))
        if positions and positions[-1] >> 32:
            yield f"{name}.dense.bin", blob(with_empty_bitmaps(positions))


folder = testdata / "deletion-vectors"
if sys.argv[1:] == ["--write"]:
    folder.mkdir(exist_ok=True)
    for name, data in deletion_vectors():
        (folder / name).write_bytes(data)

vectors = sorted((testdata / "valid").glob("01-*.sip"))
for vector in vectors:
    data = vector.read_bytes()
    assert list(BitMap64.deserialize(data[1:])) == ids(data), f"{vector.name}: pyroaring reads another set"
    assert bitmap64(ids(data), True) == data[1:], f"{vector.name}: pyroaring writes other bytes"

written = dict(deletion_vectors())
assert {path.name: path.read_bytes() for path in folder.iterdir()} == written, "other deletion vectors"
print(f"pyroaring: {len(vectors)} vectors of tag 0x01 both ways, {len(written)} deletion vectors")
