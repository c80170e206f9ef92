"""Reading a plan's JSON with checks: every error names the object and the key that are wrong.

A schema library would check as much; these messages also suggest the key that was meant, and name tables and
columns as the person who edits the plan knows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gentus.union.errors import PlanError, did_you_mean


class JsonObject:
    """A JSON object, and its location in the document for messages."""

    def __init__(self, values: Any, where: str, keys: tuple[str, ...]) -> None:
        if not isinstance(values, Mapping):
            raise PlanError(f"{where} must be an object in braces, not {_short(values)}")
        self.values, self.where = values, where
        for key in values:
            if key not in keys:
                raise PlanError(f"{where} has an unknown key {key!r}{did_you_mean(key, keys)}")

    def get(self, key: str, kind: type, *default: Any) -> Any:
        """A value of the given type; without a default the key is required."""
        value = self.values.get(key, *default) if default else self._required(key)
        if default and value is None:
            return default[0]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
            raise PlanError(f"{self.where}: {key!r} must be {words[kind]}, not {_short(value)}")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of several texts; the first is the default."""
        value: str = self.get(key, str, choices[0])
        if value not in choices:
            raise PlanError(
                f"{self.where}: {key!r} must be one of {', '.join(map(repr, choices))}, not {value!r}"
            )
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty if the key is missing."""
        values = self.values.get(key) or []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise PlanError(f"{self.where}: {key!r} must be a list of texts")
        return tuple(values)

    def object(self, key: str, keys: tuple[str, ...]) -> JsonObject:
        """An object inside this one, with the keys that it may have."""
        return JsonObject(self._required(key), f"{key!r} of {self.where}", keys)

    def objects(self, key: str, each: str, keys: tuple[str, ...], optional: bool = False) -> list[JsonObject]:
        """A list of objects; `each` is what messages call one of them."""
        values = self.values.get(key) or [] if optional else self._required(key)
        if not isinstance(values, list):
            raise PlanError(f"{self.where}: {key!r} must be a list, not {_short(values)}")
        objects = []
        for number, value in enumerate(values, 1):
            name = value.get("name", value.get("from")) if isinstance(value, Mapping) else None
            where = f"{each} {number}{f' ({name})' if name else ''} of {self.where}"
            objects.append(JsonObject(value, where, keys))
        return objects

    def _required(self, key: str) -> Any:
        if key not in self.values:
            raise PlanError(f"{self.where} lacks {key!r}")
        return self.values[key]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}.."
