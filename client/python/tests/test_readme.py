"""What README.md shows runs, and prints what its comments say."""

import contextlib
import io
import pathlib
import re
import warnings

import pytest

import basalt_client as basalt

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.sql
def test_every_block_runs(client: basalt.Client, address: str) -> None:
    text = README.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 11
    known: dict[str, object] = {"__name__": "readme"}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy", UserWarning)
            for block in blocks:
                # At the line where it stands, for the traceback.
                lines = "\n" * text[: text.index(block)].count("\n")
                exec(compile(lines + block.replace("127.0.0.1:7700", address), str(README), "exec"), known)
    finally:
        for name in ("flights", "planes"):
            client.drop(name, if_exists=True)
    said = re.findall(r"^ *print\(.*\) +# (\[.*|[A-Z_]{4,} .*)$", text, re.MULTILINE)
    assert len(said) == 2
    assert set(said) <= set(printed.getvalue().splitlines())
