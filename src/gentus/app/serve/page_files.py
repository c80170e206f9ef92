"""The files of the page, as shipped with the package. Nothing else can be requested."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
SHELL = "index.html"


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page."""

    content: bytes
    type: str
    etag: str
    stamp: int  # modification time of the file


class PageFiles:
    """Files by name; one that has changed is read again."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._known: dict[str, PageFile] = {}

    def get(self, name: str) -> PageFile | None:
        """A file by its path in the folder; the name is looked up in a listing, never opened as a path."""
        path = self._paths().get(name)
        if path is None:
            return None
        stamp = path.stat().st_mtime_ns
        known = self._known.get(name)
        if known is None or known.stamp != stamp:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            known = self._known[name] = PageFile(content, _type(name), etag, stamp)
        return known

    def _paths(self) -> dict[str, Path]:
        files = (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(self.folder).as_posix(): path for path in files}


def _type(name: str) -> str:
    known = {
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".svg": "image/svg+xml",
        ".woff2": "font/woff2",
    }
    kind = known.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
