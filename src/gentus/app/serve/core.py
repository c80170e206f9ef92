"""What the page, the API and agents share: the index that is served, what was sent, and what is allowed."""

from __future__ import annotations

import os
import tempfile

from gentus.app.serve.index_handle import Holder
from gentus.app.serve.settings import Settings
from gentus.app.serve.uploads import Uploads


class Core:
    """An index that is served to somebody."""

    def __init__(self, holder: Holder, settings: Settings) -> None:
        self.holder, self.settings = holder, settings
        self.uploads = Uploads(settings)

    def scrubbed(self, text: str) -> str:
        """Words that say nothing of where files lie on this machine."""
        index = self.holder.index
        for folder in (self.uploads.folder, index.config.lake, index.layout.root, tempfile.gettempdir()):
            text = text.replace(os.path.join(str(folder), ""), "")
        return text

    def close(self) -> bool:
        """End all work; False if some goes on."""
        self.uploads.close()
        return True
