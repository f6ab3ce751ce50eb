"""Runs `sip.py` over the vectors in `testdata/`: valid ones give their ids, invalid ones their error."""

import hashlib
import json
import pathlib
import sys

import sip

testdata = pathlib.Path(__file__).parent.parent / "testdata"
index = json.loads((testdata / "index.json").read_text())
failed = []

for vector in index["valid"]:
    ranges = sip.ranges((testdata / vector["file"]).read_bytes())
    ids = [id for first, last in ranges for id in range(first, last + 1)]
    digest = hashlib.sha256(b"".join(id.to_bytes(8, "little") for id in ids)).hexdigest()
    ends = (str(ids[0]), str(ids[-1])) if ids else (None, None)
    listed = [[str(first), str(last)] for first, last in ranges]
    if (
        digest != vector["sha256"]
        or len(ids) != vector["cardinality"]
        or ends != (vector.get("first"), vector.get("last"))
        or vector.get("ranges", listed) != listed
    ):
        failed.append(f"{vector['name']}: other ids")

for vector in index["invalid"]:
    try:
        sip.ranges((testdata / vector["file"]).read_bytes())
        failed.append(f"{vector['name']}: accepted, not {vector['error']}")
    except sip.SipError as error:
        if error.name != vector["error"]:
            failed.append(f"{vector['name']}: {error}, not {vector['error']}")

print("\n".join(failed) or f"{len(index['valid'])} valid and {len(index['invalid'])} invalid vectors: as they should be")
sys.exit(bool(failed))
