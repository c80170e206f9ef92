"""A lake for the page: films under several headers, and other things; cells and a name try to be markup."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from conftest import write_table

SCRIPT = "<script>document.title='taken over'</script>"
IMAGE = "<img src=x onerror=alert(1)>"
EVIL_NAME = "films/<b>bold<b>.csv"
COLUMNS = ("Title", "Year", "Director", "Genre", "Runtime")
RENAMED = {"Title": "film", "Year": "released", "Director": "made by", "Genre": "kind", "Runtime": "minutes"}
_FIRST, _SECOND = (
    words.split()
    for words in (
        "Silent Golden Broken Hidden Last Winter Red Lost",
        "River Letter Garden Promise Harbour Summer",
    )
)
_DIRECTORS = ("Akira Kurosawa", "Agnès Varda", "Billy Wilder", "Jane Campion", "Satyajit Ray")
_GENRES = ("drama", "comedy", "thriller", "western", "romance")
_OTHERS = {
    "fish": ("salmon trout carp pike eel perch herring cod tuna bass", "river lake sea pond brook", 10),
    "metals": ("iron copper zinc nickel silver gold cobalt tin lead", "ore alloy wire sheet", 1000),
    "birds": ("robin sparrow heron eagle falcon owl crane stork wren", "forest marsh garden cliff", 100_000),
    "tools": ("hammer pliers wrench chisel drill saw clamp lathe rasp", "workshop bench rack", 10**7),
}
Rows = list[list[str]]


def film_rows(seed: int, count: int, columns: Sequence[str] = COLUMNS) -> Rows:
    """Made-up films, with a header."""
    chance = random.Random(f"films {seed}")
    films = [
        {
            "Title": f"{chance.choice(_FIRST)} {chance.choice(_SECOND)} {chance.randint(2, 99)}",
            "Year": str(chance.randint(1950, 2020)),
            "Director": chance.choice(_DIRECTORS),
            "Genre": chance.choice(_GENRES),
            "Runtime": str(chance.randint(75, 190)),
            "Budget": f"{chance.uniform(1, 90):.1f}",
        }
        for _ in range(count)
    ]
    return [list(columns), *([film[name] for name in columns] for film in films)]


def other_rows(subject: str, seed: int) -> Rows:
    """Made-up rows of something else, with a header."""
    chance = random.Random(f"{subject} {seed}")
    names, kinds, size = _OTHERS[subject]
    return [["name", "place", "size"]] + [
        [chance.choice(names.split()), chance.choice(kinds.split()), f"{chance.uniform(size, 3 * size):.1f}"]
        for _ in range(12)
    ]


def page_lake(root: Path) -> Path:
    """Eight tables of films and twenty of other things."""
    write_table(root / "films/a.csv", film_rows(1, 14))
    write_table(root / "films/b.parquet", film_rows(2, 16, ["Genre", "Title", "Budget", "Year", "Director"]))
    renamed = film_rows(3, 18)
    renamed[0] = [RENAMED[name] for name in COLUMNS]
    write_table(root / "films/c.csv", renamed)
    write_table(root / "films/d.jsonl", film_rows(4, 12, ["Runtime", "Director", "Title", "Year"]))
    for number in range(5, 8):
        write_table(root / f"films/more/{number}.csv", film_rows(min(number, 6), 12))  # the last is a copy
    evil = film_rows(8, 12)
    evil[1][0], evil[2][3] = SCRIPT, IMAGE
    write_table(root / EVIL_NAME, evil)
    for subject in _OTHERS:
        for number in range(5):
            write_table(root / subject / f"{number}.csv", other_rows(subject, number))
    return root
