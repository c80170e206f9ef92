"""Atheris on the sniffing path: which encoding, delimiter and quotes, and where the records of JSON are.

`make fuzz-atheris` looks for bytes that make it raise anything but `Unreadable`, or take longer than 10
seconds. Those found are kept in `fuzz-kept/`, as `crash-..` and `timeout-..`.
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("This needs atheris, which has wheels for some Pythons on Linux only: make fuzz-atheris")

with atheris.instrument_imports(include=["gentus.lake", "json"]):
    from gentus.lake.base import Unreadable, table_from_rows
    from gentus.lake.files import stream_text, to_text
    from gentus.lake.formats.dialect import guess_dialect, parse
    from gentus.lake.formats.json_text import cell_text, records_of
    from gentus.table import Limits


def sniff(data: bytes) -> None:
    """Do with a small file what reading does; its first byte says which way."""
    if not data:
        return
    way, data = data[0], data[1:]
    try:
        text, _ = to_text(data)
        if way % 2:
            rows = parse(text, guess_dialect(text, complete=way % 4 == 1).dialect)
            if rows:
                table_from_rows("fuzzed", rows[0], rows[1:], Limits())
        else:
            for record in records_of(text, complete=way % 4 == 0)[0]:
                cell_text(record)
        "".join(stream_text([data[:7], data[7:]], data, to_text(data)[1])).encode("utf-8", "replace")
    except (Unreadable, RecursionError):  # too deep is told in words by whoever reads
        return


if __name__ == "__main__":
    seconds = sys.argv[1] if len(sys.argv) > 1 else "300"
    Path("fuzz-kept").mkdir(exist_ok=True)
    options = [
        "-artifact_prefix=fuzz-kept/",
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-max_len=2048",
        "-rss_limit_mb=2048",
    ]
    atheris.Setup([sys.argv[0], *options], sniff)
    atheris.Fuzz()
