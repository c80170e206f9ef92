"""Docstrings for the site: `Example:` and `>>>` are code, and the comment behind a field is its docstring."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Docstring, Extension, Object


class Docstrings(Extension):
    """Rewrites the docstring of every object as it is read."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = re.sub(r"^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text, flags=re.M)

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Take the comment behind a field of a class, on its last line, as its docstring."""
        comment = re.search(r"  # (.+)$", attr.lines[-1]) if attr.lines and attr.parent else None
        if comment and not attr.docstring and attr.parent and attr.parent.is_class:
            attr.docstring = Docstring(comment[1], parent=attr)
