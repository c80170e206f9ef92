"""The docs name only what exists (commands, flags, files, Python names, links) and name every command."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import gentus
from gentus.union import Union, UnionPlan
from gentus_bench.registry import EXPERIMENTS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TEXTS = {path: path.read_text("utf-8") for path in PAGES}
OTHER_FLAGS = {
    "--platform",
    "--strict",
    "--no-deps",
    "--require-hashes",
    "--nproc-per-node",
}  # of other programs
HOSTS = {
    "keepachangelog.com",
    "openlineage.io",  # its specification
    "semver.org",
    "zensical.org",  # builds the site
    "host",  # stands for any
    "localhost:8420",
    "127.0.0.1:8420",
}  # that the docs may name: places that exist
IN_CODE = {"openlineage.io", "pypi.org", "schemas.openxmlformats.org", "www.w3.org"}  # and the code
OLD_WORDS = (
    r"lean(s|ed|ing)?|towards?|circles?|tidied|tidying|telling|lanes?|apart|workshop|hubs? step|seen on|asked"
)
PUBLIC = {"gentus": gentus, "Index": gentus.Index, "Hit": gentus.Hit, "Union": Union, "UnionPlan": UnionPlan}
CALL = re.compile(r"(?:^|[$/;&] ?|-m |[A-Z]=\S+ )(gentus(?:-bench)?)((?: +[^\s#;|&`]+)*)", re.M)


class Code(NamedTuple):
    """A fenced block or an inline span."""

    language: str | None  # None: a span
    text: str


def codes(text: str) -> Iterator[Code]:
    for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```", text, re.M | re.S):
        yield Code(block[1], block[2].replace("\\\n", " "))
    for span in re.finditer(r"`([^`\n]+)`", without_blocks(text)):
        yield Code(None, span[1])


def without_blocks(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def command_tree(module: str) -> Any:
    apps = [one for one in vars(importlib.import_module(module)).values() if isinstance(one, typer.Typer)]
    return typer.main.get_command(apps[0])


@pytest.fixture(scope="module")
def trees() -> dict[str, Any]:
    scripts: dict[str, str] = {}
    for folder in (ROOT, ROOT / "benchmarks"):
        scripts |= tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert set(scripts) == {"gentus", "gentus-bench"}
    return {
        "gentus": command_tree("gentus.app.cli.main"),
        "gentus-bench": command_tree("gentus_bench.cli"),
    }


def flags(command: Any) -> set[str]:
    """All flags of a command and of those below it."""
    own = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag[0] == "-"}
    below = (flags(one) for one in getattr(command, "commands", {}).values())
    return own.union({"--help"}, *below)


def unknown_of(call: re.Match[str], trees: dict[str, Any]) -> list[str]:
    """The words of a call that name neither a command nor a flag that there is."""
    command, words = trees[call[1]], call[2].split()
    while words and hasattr(command, "commands") and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        if words[0] not in command.commands:
            return [f"{call[1]} {words[0]}"]
        command = command.commands[words.pop(0)]
    if command.name == "run" and words and words[0].islower() and words[0] not in EXPERIMENTS:
        return [f"gentus-bench run {words[0]}"]
    used = {word.partition("=")[0].strip("[]()'\",.") for word in words if word.lstrip("[(").startswith("--")}
    return [f"{call[1]} {command.name} {flag}" for flag in sorted(used - flags(command))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_and_flags_exist(path: Path, trees: dict[str, Any]) -> None:
    known = OTHER_FLAGS.union(*(flags(tree) for tree in trees.values()))
    unknown = []
    for code in codes(TEXTS[path]):
        for call in CALL.finditer(code.text):
            unknown += unknown_of(call, trees)
        if code.language is None and code.text.startswith("--"):
            unknown += {code.text.split()[0].partition("=")[0]} - known
    assert not unknown, "\n".join(unknown)


def test_the_page_of_commands_is_up_to_date() -> None:
    from write_commands import TARGET, commands_page

    assert TARGET.read_text("utf-8") == commands_page() + "\n", "run: make docs"


def test_every_command_and_flag_is_documented(trees: dict[str, Any]) -> None:
    text = "\n".join(TEXTS.values())
    for name, command in trees["gentus"].commands.items():
        assert f"gentus {name}" in text
        for flag in flags(command) - {"--help"}:
            assert f"`{flag}`" in text, f"gentus {name} {flag}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_names_exist(path: Path) -> None:
    unknown = []
    for code in codes(TEXTS[path]):
        if code.language == "python":
            compile(code.text, str(path), "exec")
        for owner, name in re.findall(
            r"\b(gentus|Index|Hit|Union|UnionPlan)\.(?!toml)([A-Za-z]\w*)\b", code.text
        ):
            module = ROOT / "src" / "gentus" / name
            if (
                not hasattr(PUBLIC[owner], name)
                and not module.with_suffix(".py").exists()
                and not module.is_dir()
            ):
                unknown.append(f"{owner}.{name}")
        unknown += [
            f"index.{name}"
            for name in re.findall(r"\bindex\.(\w+)\(", code.text)
            if not hasattr(gentus.Index, name)
        ]
    assert not unknown


def test_the_python_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENTUS_CACHE", str(tmp_path / "cache"))
    Path("my_lake").mkdir()
    for number, name in enumerate(("my_table.csv", "new.csv", "films.csv", "my_lake/old.csv", *"abc")):
        rows = [f"film {number} {row},{1950 + row},country {row % 5}" for row in range(12)]
        path = name if name.endswith(".csv") else f"my_lake/{name}.csv"
        Path(path).write_text("\n".join(["title,year,country", *rows]), "utf-8")
    scope: dict[str, Any] = {}
    for path in (ROOT / "docs" / "API.md", ROOT / "README.md", ROOT / "docs" / "UNION.md"):
        for code in codes(TEXTS[path]):
            if code.language == "python":
                exec(
                    compile(code.text.replace("all.parquet", f"{path.stem}.parquet"), str(path), "exec"),
                    scope,
                )
    assert all(Path(f"{name}.parquet").exists() for name in ("API", "README", "UNION"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_of_the_project_exist(path: Path) -> None:
    there = [one for name in ("src", "tests", "tools", "benchmarks") for one in (ROOT / name).rglob("*.py")]
    for code in codes(TEXTS[path]):
        for name in re.findall(
            r"(?<![\w.*/-])(?:[\w/]+/)?\w+\.py\b", code.text if code.language is None else ""
        ):
            assert any(f"/{one.as_posix()}".endswith(f"/{name}") for one in there), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_places_exist(path: Path) -> None:
    """Hosts that the docs name, files and folders of the project, and make's targets."""
    hosts = set(re.findall(r"\bhttps?://([\w.:-]+)", TEXTS[path]))
    assert hosts <= HOSTS
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for code in codes(TEXTS[path]):
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", code.text, re.M)) <= targets
        for name in re.findall(r"(?<![\w./-])(?:src|docs|tests|tools|benchmarks)/[\w./-]*", code.text):
            assert (ROOT / name).exists(), name


def test_places_that_the_code_names_exist() -> None:
    files = [one for name in ("src", "benchmarks/gentus_bench") for one in (ROOT / name).rglob("*.*")]
    texts = [one.read_text("utf-8") for one in files if one.suffix in (".py", ".js", ".html", ".css", ".svg")]
    hosts = {host for text in texts for host in re.findall(r"\bhttps?://([\w-]+(?:\.[\w-]+)+)", text)}
    assert hosts <= IN_CODE | {"127.0.0.1"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_is_to_be_installed_exists(path: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for words in re.findall(r"pip install ([^`\n#]+)", TEXTS[path]):
        for named in re.findall(r"(?:gentus|\.)\[([\w,]+)\]", words):
            assert set(named.split(",")) <= extras.keys(), words
        for lock in re.findall(r"-r (\S+)", words):
            assert (ROOT / lock.rstrip(",")).exists(), words


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        if number:
            found[f"{slug}-{number}"] = 1
    return set(found)


def links(path: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", without_blocks(TEXTS[path]))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'\bsrc(?:set)?="([^"]+)"', text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    assert not broken


def test_every_picture_is_shown() -> None:
    shown = {Path(link).name for path in PAGES for link in links(path)}
    pictures = {path.name for path in (ROOT / "docs").iterdir() if path.suffix in (".png", ".svg")}
    assert pictures <= shown, pictures - shown


def test_the_bytes_of_a_signature_are_true() -> None:
    from gentus.align.signatures import SIGNATURE

    for name in ("README.md", "docs/GLOSSARY.md", "docs/HOW_IT_WORKS.md"):
        assert f"{SIGNATURE.itemsize} bytes" in TEXTS[ROOT / name], name


def test_the_figures_of_the_readme_are_in_the_results() -> None:
    """Each as it stands there; of a row of its table, where the results name the lake."""
    readme, results = TEXTS[ROOT / "README.md"], TEXTS[ROOT / "docs" / "RESULTS.md"]
    section = readme.partition("## How good, how fast")[2].partition("\n## ")[0]
    figures = re.findall(r"(?<![\w.])\d\.\d{3}(?![\d.])", section)
    assert len(figures) > 15
    assert {one for one in figures if not re.search(rf"(?<![\d.]){re.escape(one)}(?!\d)", results)} == set()
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 3
    for name, *cells in rows:
        lake = name.split("`")[1]
        tables = [part for part in results.split("\n\n") if part.startswith("|") and lake in part]
        known = {cell.strip(" *") for table in tables for cell in re.split(r"[|\n/]", table)}
        wanted = {cell.strip(" *") for cell in cells if re.fullmatch(r" \**\d\.\d{3}\** ", cell)}
        assert wanted
        assert wanted - known == set(), lake


def test_the_readme_is_short() -> None:
    assert len(TEXTS[ROOT / "README.md"].splitlines()) < 150


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_words_are_the_fields(path: Path) -> None:
    found = re.finditer(rf"\b({OLD_WORDS})\b", TEXTS[path], re.I)
    assert not [TEXTS[path][max(0, one.start() - 30) : one.end() + 20] for one in found]


def test_every_package_is_listed() -> None:
    listing = TEXTS[ROOT / "CONTRIBUTING.md"]
    for package in (ROOT / "src" / "gentus").glob("*/__init__.py"):
        assert f"`{package.parent.name}/`" in listing, package.parent.name
