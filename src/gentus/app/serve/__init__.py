"""A page and an API over HTTP: one process, loopback by default, searches in threads."""

from gentus.app.serve.settings import Settings

__all__ = ["Settings"]
