"""The index folder: its files, their checksums, and the lock for writing.

A search needs a model and a prefix tree, each with a number. A change writes the next ones beside the old,
then switches by one transaction of the catalogue; a reader sees the old index or the new one, never a
mixture. `config.json` says the same as the catalogue, with the checksums of all files.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from gentus.errors import GentusError
from gentus.files import write_file
from gentus.index.config import FORMAT, FileChecksum, IndexConfig, from_document, to_document
from gentus.shell import command


class IndexFolderError(GentusError, RuntimeError):
    """An index folder that cannot be used; the message says why and what to do.

    Example:
        >>> try:
        ...     gentus.build("lake", "lake")
        ... except gentus.IndexFolderError as error:
        ...     print(error)
        lake is the lake itself. Give the index a folder of its own: gentus index lake -o lake.index
    """


class IndexNotFoundError(IndexFolderError, FileNotFoundError):
    """There is no index at a path, or its build was not finished.

    Example:
        >>> try:
        ...     gentus.open("nowhere.index")
        ... except FileNotFoundError as error:
        ...     print(error)
        There is no index at nowhere.index. Make one: gentus index LAKE -o nowhere.index
    """


class IndexLockedError(IndexFolderError, BlockingIOError):
    """Another process is changing the index; it can be searched meanwhile.

    Example:
        >>> issubclass(gentus.IndexLockedError, BlockingIOError)
        True
    """


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths inside an index folder."""

    root: Path

    @property
    def config(self) -> Path:
        """Settings, and which generation is current."""
        return self.root / "config.json"

    @property
    def catalogue(self) -> Path:
        """The SQLite catalogue."""
        return self.root / "catalogue.sqlite"

    @property
    def lock(self) -> Path:
        """What a writer locks."""
        return self.root / "write.lock"

    def model(self, generation: int) -> Path:
        """Encoder weights and codebooks."""
        return self.root / f"model-{generation}.safetensors"

    def trie(self, number: int) -> Path:
        """Folder of the prefix tree's arrays."""
        return self.root / f"trie-{number}"

    @property
    def cache(self) -> Path:
        """Features of all tables. It may be deleted; a build makes it anew."""
        return self.root / "cache"

    def chunk(self, number: int) -> Path:
        """Cached features of some hundred tables."""
        return self.cache / f"features-{number:06d}.npz"

    @property
    def added(self) -> Path:
        """Tables that were uploaded to a server to be added: they are nowhere else."""
        return self.root / "added"

    def is_index(self) -> bool:
        """Whether this is an index, finished or not."""
        return self.catalogue.is_file() and (self.config.is_file() or self.cache.is_dir())


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file to read it; a link, a pipe or a device is refused at once."""
    if foreign := _foreign(path):
        raise OSError(errno.EINVAL, foreign, str(path))
    return path.open("rb")


def _foreign(path: Path) -> str | None:
    """Why an entry of an index folder is not a file that gentus writes, in words."""
    kind = path.lstat().st_mode
    if stat.S_ISLNK(kind):
        return f"it is a link to {os.readlink(path)}"
    if stat.S_ISREG(kind):
        return None
    return "it is a folder, not a file" if stat.S_ISDIR(kind) else "it is neither a file nor a folder"


def refuse_foreign(layout: Layout) -> None:
    """No part of an index is a link, a pipe or a device: these would lead out of it, or have no end."""
    for folder in (layout.root, layout.cache, *layout.root.glob("trie-*")):
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    raise IndexFolderError(
                        f"{entry.path} does not belong into an index: {_foreign(Path(entry.path))}. "
                        f"Delete it, then see what is missing: {command('check', layout.root)}"
                    )


@contextmanager
def write_lock(layout: Layout, wait: float = 0.0) -> Iterator[None]:
    """Keep other writers out. SQLite's locks work on every system and end with the process."""
    with closing(sqlite3.connect(layout.lock, timeout=wait, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise IndexLockedError(
                f"{layout.root} is being changed by another process. It can be searched meanwhile; "
                "to change it, wait for the other, or stop it."
            ) from error
        yield


def write_config(layout: Layout, config: IndexConfig) -> None:
    """Replace `config.json` in one step, with a checksum of its own."""
    document = to_document(config)
    checked = {**document, "checksum": _checksum(document)}
    write_file(layout.config, (json.dumps(checked, indent=2) + "\n").encode())


def _checksum(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digests(layout: Layout, generation: int, tree: int) -> dict[str, FileChecksum]:
    """Size and SHA-256 of every file that the catalogue's current configuration stands on."""
    files = [layout.model(generation)]
    files += sorted(path for path in layout.trie(tree).glob("*") if path.is_file())
    return {
        path.relative_to(layout.root).as_posix(): FileChecksum(path.stat().st_size, digest(path))
        for path in files
    }


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(layout: Layout, name: str, expected: FileChecksum) -> str | None:
    """What is wrong with a file, in words; None if it is as it was written."""
    path = layout.root / name
    try:
        if foreign := _foreign(path):
            return foreign
        size = path.stat().st_size
        if size != expected.bytes:
            return f"it has {size:,} bytes instead of {expected.bytes:,}"
        if digest(path) != expected.sha256:
            return "its content is not what was written (the checksum differs)"
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def verify_files(layout: Layout, config: IndexConfig, paths: Iterable[Path]) -> None:
    """Compare files, or all files of folders, with their checksums."""
    for path in paths:
        name = path.relative_to(layout.root).as_posix()
        files = {file: expected for file, expected in config.files.items() if file.split("/")[0] == name}
        if not files:
            raise damaged(layout, layout.config, f"it lists no checksum of {name}")
        for file, expected in files.items():
            reason = verify(layout, file, expected)
            if reason:
                raise damaged(layout, layout.root / file, reason)


def damaged(layout: Layout, path: Path, reason: object) -> IndexFolderError:
    """The error that says that a file of an index is damaged."""
    missing = "" if path.exists() else "missing or "
    return IndexFolderError(
        f"{path} is {missing}damaged: {reason}. See what can be repaired: {command('check', layout.root)}"
    )


def read_config(layout: Layout) -> IndexConfig:
    """Read `config.json`, or say what is wrong with it."""
    try:
        if layout.root.is_dir():
            os.listdir(layout.root)  # the error names the folder, not one of its files
        ours = is_ours(layout)
        if ours:
            refuse_foreign(layout)
    except PermissionError as error:
        raise IndexFolderError(
            f"{error.filename} cannot be read: {error.strerror}. Ask its owner for the permission."
        ) from error
    if not ours:
        raise IndexNotFoundError(_why_no_index(layout.root))
    if not layout.config.is_file():
        raise IndexNotFoundError(
            f"{layout.root} is not a finished index. Its build was not finished; run: "
            f"{command('index', 'LAKE', '-o', layout.root)}"
        )
    repair = f"Mend it: {command('check', layout.root, '--repair')}"
    try:
        document: dict[str, Any] = json.loads(layout.config.read_text("utf-8"))
        version, checksum = document["format"], document.pop("checksum", None)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexFolderError(f"{layout.config} is damaged ({_reason(error)}). {repair}") from error
    lake = document.get("lake")
    check_format(layout, version, lake)
    if checksum != _checksum(document):
        raise IndexFolderError(f"{layout.config} was altered (its checksum differs). {repair}")
    try:
        return from_document(document)
    except ValueError as error:
        raise IndexFolderError(
            f"{layout.config} is not of this version of gentus ({error}). "
            f"Build the index again: {command('index', lake or 'LAKE', '-o', layout.root)}"
        ) from error


def is_ours(layout: Layout) -> bool:
    """Whether a folder is an index, whatever is missing from it; else it is somebody's data."""
    return layout.catalogue.is_file() or indexed_lake(layout) is not None


def _why_no_index(path: Path) -> str:
    """What is at a path instead of an index, and how to make one; never in a folder of other files."""
    from gentus.lake.formats.detect import SEVERAL_TABLES, format_of  # only this message needs it

    if re.match(r"[a-z][a-z0-9+]+:/", str(path)):
        return f"{path}: an index is a folder on this machine, not a URL."
    if path.is_file():
        lake = path if format_of(path.name) in SEVERAL_TABLES else None
        make = command("index", lake or "LAKE", "-o", new_folder(path) if lake else "INDEX")
        return f"{path} is a file, not an index. Make an index: {make}"
    if not path.exists() or not any(path.iterdir()):
        out = path if format_of(path.name) is None else "INDEX"
        return f"There is no index at {path}. Make one: {command('index', 'LAKE', '-o', out)}"
    made = Path(f"{path.resolve().name}.index")
    if indexed_lake(Layout(made)) == str(path.resolve()):
        return f"{path} is not an index; {made} is an index of it."
    return f"{path} is not an index. Make one of its tables: {command('index', path, '-o', new_folder(path))}"


def new_folder(data: Path) -> Path:
    """A name for an index that nothing has yet, in the current folder, or beside data that it lies in."""
    full = data.resolve()
    if full.parent == full:
        return Path("INDEX")  # of all files of a machine: a person has to choose
    folder = full.parent if Path.cwd().is_relative_to(full) else Path()
    name = full.stem if full.is_file() else full.name
    numbered = (folder / f"{name}{'' if at == 1 else f'-{at}'}.index" for at in count(1))
    return next(path for path in numbered if not path.exists())


def indexed_lake(layout: Layout) -> str | None:
    """The lake of a finished index of any version; None if there is none, or `config.json` is damaged."""
    lake = _stated(layout, "lake")
    return None if lake is None else str(lake)


def _stated(layout: Layout, key: str) -> Any:
    try:
        return json.loads(layout.config.read_text("utf-8"))[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_other_format(layout: Layout, older: bool = True) -> None:
    """Refuse an index that `config.json` says is of another format, or only one of a newer format."""
    version = _stated(layout, "format")
    if isinstance(version, int) and (older or version > FORMAT):
        check_format(layout, version, indexed_lake(layout))


def check_format(layout: Layout, version: object, lake: object) -> None:
    """Refuse an index of another format, with the command that helps."""
    if version == FORMAT:
        return
    from gentus.extras import upgrade  # only this message needs it

    newer = isinstance(version, int) and version > FORMAT
    build = f"Build the index again: {command('index', lake or 'LAKE', '-o', layout.root)}"
    raise IndexFolderError(
        f"{layout.root} has index format {version}, this version of gentus reads {FORMAT}. "
        f"{f'A newer gentus made it; upgrade: {upgrade()}' if newer else build}"
    )


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def next_generation(layout: Layout) -> int:
    """A number that no file carries yet, finished or not: a file that is in use is never written again."""
    found = [
        int(number)
        for path in layout.root.glob("*-*")
        if (number := path.name.split("-")[1].split(".")[0]).isdecimal()
    ]
    return max(found, default=0) + 1


def superseded(layout: Layout, generation: int, tree: int) -> list[Path]:
    """Files and folders that no reader will open any more, or that a stopped writer left half done."""
    current = (layout.model(generation), layout.trie(tree))
    numbered = (path for kind in ("model-*", "trie-*") for path in layout.root.glob(kind))
    return [path for path in (*numbered, *layout.root.glob("*.part")) if path not in current]


def remove_superseded(layout: Layout, generation: int, tree: int) -> None:
    """Delete them. A reader that still has one open keeps it; where the system forbids that, it stays."""
    for path in superseded(layout, generation, tree):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
