"""Names of tables that begin with some letters, for completion at a prompt.

It reads the catalogue with SQLite alone: a key press must not wait for NumPy.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

MOST = 500  # names
_LAST = "\U0010ffff"


def names_beginning(index: Path, start: str, most: int = MOST) -> list[str]:
    """Names of tables that can be found, sorted; of more than `most`, the first ones and the last.

    The last is there so that what all of the list begin with is what all of the names do.
    """
    file = (index / "catalogue.sqlite").absolute()
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=0.2)) as db:
        chosen = "SELECT name FROM tables WHERE codes IS NOT NULL AND name >= ? AND name < ? ORDER BY name"
        bounds = start, start + _LAST
        names = [str(name) for (name,) in db.execute(f"{chosen} LIMIT ?", (*bounds, most))]
        if len(names) == most:
            names += [str(name) for (name,) in db.execute(f"{chosen} DESC LIMIT 1", bounds)]
    return list(dict.fromkeys(names))
