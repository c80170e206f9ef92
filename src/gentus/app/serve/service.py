"""The service behind the page, the API and the MCP tools: one index, uploads of clients, and limits."""

from __future__ import annotations

import os
import tempfile

from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.settings import Settings
from gentus.app.serve.uploads import Uploads


class Service:
    """An index that is served, with the uploads of its clients."""

    def __init__(self, handle: IndexHandle, settings: Settings) -> None:
        self.handle, self.settings = handle, settings
        self.uploads = Uploads(settings)

    def redact_paths(self, text: str) -> str:
        """A message without the folders of this machine."""
        index = self.handle.index
        for folder in (self.uploads.folder, index.config.lake, index.layout.root, tempfile.gettempdir()):
            text = text.replace(os.path.join(str(folder), ""), "")
        return text

    def close(self) -> bool:
        """End all work; False if some goes on."""
        self.uploads.close()
        return True
