"""Try wheels and source archives as a new user does: from `pip install` to the first search result.

Each is installed in a fresh environment, with an empty home folder and no cache, but with pip's own settings.
Then a tiny lake is indexed and searched. It prints seconds and megabytes, and fails if anything is not as a
user would expect. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MOST_MB = 450  # of installed packages, on Linux
AIM_SECONDS = 60  # beyond the download
KEPT = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SYSTEMROOT")
SETTINGS = (".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf")
TOPICS = {
    "rivers": ("Rhine Danube Elbe Oder Main Neckar Mosel Isar Inn Weser", range(50, 3000)),
    "metals": ("iron copper zinc nickel silver gold cobalt tin lead titanium", range(1, 120)),
    "films": ("Vertigo Alien Casablanca Psycho Rocky Jaws Amadeus Fargo Heat", range(1930, 2020)),
    "birds": ("robin sparrow heron eagle falcon owl crane stork wren finch", range(5, 900)),
}
BEFORE = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
RESULT = "benchmarks/results/first-result.json"
HEADER = ["name", "number", "rating"]


class TryError(Exception):
    """Something is not as a user would expect."""


@dataclass
class Fresh:
    """An environment with nothing in it, and a home folder that is empty."""

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create both."""
        venv.create(self.folder / "env", with_pip=True)
        (self.folder / "home").mkdir()

    @property
    def programs(self) -> Path:
        """Where the environment has its programs."""
        return self.folder / "env" / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: object, step: str | None = None, expected: int = 0) -> str:
        """Run one of its programs and return what it prints; its time counts for a step."""
        program, *arguments = map(str, command)
        begin = time.perf_counter()
        done = subprocess.run(
            [str(self.programs / program) + (".exe" if os.name == "nt" else ""), *arguments],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if step:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - begin
        if done.returncode != expected:
            words = " ".join(map(str, command))
            raise TryError(f"`{words}` ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout + (done.stderr if expected else "")

    def _environment(self) -> dict[str, str]:
        """Nothing of the user's but what pip needs to find packages."""
        kept = {name: text for name, text in os.environ.items() if name.upper().startswith("PIP_")}
        kept |= {name: text for name, text in os.environ.items() if name.upper() in KEPT}
        home, path = str(self.folder / "home"), os.environ.get("PATH", "")
        homes = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), home)
        settings = [Path.home() / name for name in SETTINGS]
        settings.append(Path(os.environ.get("APPDATA", home)) / "pip" / "pip.ini")
        for found in filter(Path.is_file, settings):
            kept.setdefault("PIP_CONFIG_FILE", str(found))
        temporary = {name: str(self.folder) for name in ("TMPDIR", "TEMP", "TMP")}
        places = {"PATH": os.pathsep.join([str(self.programs), path]), "PIP_NO_CACHE_DIR": "1"}
        return kept | homes | temporary | places | {"PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def packages(self) -> Path:
        """Its folder of installed packages."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        return Path(self.run("python", "-c", code).strip())

    def installed_bytes(self) -> dict[str, int]:
        """Bytes of installed packages by folder or file, without what a new environment has."""
        sizes: dict[str, int] = {}
        for path in (root := self.packages()).rglob("*"):
            top = path.relative_to(root).parts[0]
            if path.is_file() and not top.startswith(BEFORE):
                sizes[top] = sizes.get(top, 0) + path.stat().st_size
        return sizes


def write_table(path: Path, topic: str, seed: int) -> Path:
    """A small CSV on a topic."""
    names, numbers = TOPICS[topic]
    draw = random.Random(f"{topic} {seed}")
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = ([draw.choice(names.split()), draw.choice(numbers), f"{draw.random():.2f}"] for _ in range(20))
        csv.writer(file).writerows([HEADER, *rows])
    return path


def try_one(package: Path, folder: Path) -> dict[str, Any]:
    """Install a wheel or source archive, use it, and return what that took."""
    fresh = Fresh(folder)
    wheels = folder / "wheels"
    fresh.run("python", "-m", "pip", "wheel", "-q", "-w", wheels, package.resolve(), step="download")
    offline = ["--no-index", "--find-links", wheels]
    fresh.run("python", "-m", "pip", "install", "-q", *offline, "gentus", step="install")
    check_installed(fresh, package)
    for topic in TOPICS:
        for number in range(4):
            write_table(folder / "lake" / f"{topic}_{number}.csv", topic, number)
    query = write_table(folder / "rivers of mine.csv", "rivers", 9)
    fresh.run("gentus", "index", "lake", "-o", "my.index", step="index")
    answer = fresh.run("gentus", "search", "my.index", query.name, "-k", 4, "--json", step="search")
    found = [result["table"] for result in json.loads(answer)["queries"][0]["results"]]
    if not found or not all(table.startswith("rivers") for table in found):
        raise TryError(f"a table of rivers finds {found or 'nothing'}")
    fresh.run("gentus", "union", "my.index", query.name, "-o", "all.csv")
    sizes = fresh.installed_bytes()
    return {
        "package": package.name,
        "download_mb": sum(path.stat().st_size for path in wheels.iterdir()) / 1e6,
        "installed_mb": sum(sizes.values()) / 1e6,
        "largest": dict(sorted(sizes.items(), key=lambda one: -one[1])[:8]),
        "seconds": fresh.seconds,
    }


def check_installed(fresh: Fresh, package: Path) -> None:
    """Dependencies fit each other, the version is the file's, nothing heavy came along, hints are right."""
    fresh.run("python", "-m", "pip", "check")
    version = fresh.run("gentus", "--version").split()[-1]
    if f"gentus-{version}" not in package.name:
        raise TryError(f"{package.name} says that it is version {version}")
    heavy = [name for name in ("scipy", "torch", "transformers") if (fresh.packages() / name).exists()]
    if heavy:
        raise TryError(f"the base install has {', '.join(heavy)}")
    said = fresh.run("gentus", "serve", "no.index", expected=1)
    if "pip install 'gentus[serve]'" not in said:
        raise TryError(f"without the extra, `gentus serve` does not name it: {said}")


def report(tried: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table that is printed."""
    header = ["package", "download, MB", "installed, MB"]
    header += ["download, s", "install, s", "index, s", "search, s", "beyond the download, s"]
    rows = []
    for one in tried:
        seconds = one["seconds"]
        after = [seconds[step] for step in ("install", "index", "search")]
        figures = [one["download_mb"], one["installed_mb"], seconds["download"], *after, sum(after)]
        digits = [0, 0, 0, 1, 1, 1, 1]
        rows.append([one["package"], *(f"{at:.{n}f}" for at, n in zip(figures, digits, strict=True))])
    return header, rows


def document(tried: list[dict[str, Any]]) -> dict[str, Any]:
    """The table for `gentus-bench report`, with machine, date and commit."""
    sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
    from gentus_bench.machine import describe

    facts = describe()
    header, rows = report(tried)
    parts = ", ".join(
        f"{name.partition('.cpython')[0]} {size / 1e6:.0f}" for name, size in tried[0]["largest"].items()
    )
    machine = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']}"
    return {
        "title": "From `pip install` to the first search result",
        "command": [f"make dist RESULT={RESULT}"],
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{machine}; Python {facts['python']}",
        "commit": facts["commit"],
        "load": str(facts["load"]),
        "tables": [{"columns": header, "rows": rows}],
        "note": f"Empty home folder, no caches, a lake of 16 small tables. Megabytes: {parts}.",
    }


def main() -> None:
    """Try every file that is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path, help="wheels and source archives")
    parser.add_argument("--json", type=Path, help="write the figures as a result for gentus-bench report")
    given = parser.parse_args()
    tried = []
    for package in sorted(given.packages, key=lambda path: path.suffix != ".whl"):
        with tempfile.TemporaryDirectory(prefix="gentus-try-", ignore_cleanup_errors=True) as folder:
            try:
                tried.append(try_one(package, Path(folder).resolve()))
            except TryError as error:
                sys.exit(f"{package.name} does not work: {error}")
    header, rows = report(tried)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    if given.json:
        given.json.write_text(json.dumps(document(tried), indent=1) + "\n", "utf-8")
    large = max(one["installed_mb"] for one in tried)
    if sys.platform == "linux" and large > MOST_MB:
        sys.exit(f"{large:.0f} MB are installed; {MOST_MB} are allowed. The largest: {tried[0]['largest']}")
    slow = max(float(row[-1]) for row in rows)
    if slow > AIM_SECONDS:
        print(
            f"The first result came {slow:.0f} s after the download, later than {AIM_SECONDS}.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
