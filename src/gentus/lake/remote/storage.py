"""Objects at URLs, through fsspec: what there is, what the store says of it, and failures in plain words.

Credentials are found by the library that speaks to the store (environment, profiles, instance roles). They
are never asked for, stored or shown here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from gentus.lake.base import Unreadable, failure_reason
from gentus.lake.location import Remote, State
from gentus.lake.remote.retry import TRIES, patiently, transient

T = TypeVar("T")

_OURS = "'gentus[remote]'"
_PACKAGES = {
    "s3": _OURS,
    "s3a": _OURS,
    "http": _OURS,
    "https": _OURS,
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
}
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "Last-Modified", "created")
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "blob_id", "Content-MD5", "Digest", "checksum")
_SECRET = re.compile(r"SECRET|TOKEN|PASSW|ACCESS_KEY|ACCOUNT_KEY|SAS|CREDENTIAL", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=//)[^/\s@]*:[^/\s@]*@|\?[^\s'\"]*")
_NO_CREDENTIALS = (
    "no credentials were found; set them as usual (for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE; for a public bucket FSSPEC_S3_ANON=true)"
)


def filesystem(place: Remote) -> tuple[Any, str]:
    """What speaks to the store, and what the object is called there."""
    from fsspec.core import url_to_fs

    # What was listed a while ago is not what is there now; and patience is ours, for all stores the same.
    options: dict[str, Any] = {"use_listings_cache": False}
    if place.scheme in ("s3", "s3a"):
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    try:
        store, path = url_to_fs(place.url, **options)
    except ImportError as error:
        package = _PACKAGES.get(place.scheme)
        what = f"pip install {package}" if package else scrubbed(str(error))
        raise Unreadable(
            f"reading {place.scheme}:// needs a package that is not installed: {what}"
        ) from error
    except ValueError as error:
        raise Unreadable(scrubbed(str(error))) from error
    if hasattr(store, "call_s3"):
        store.retries = 1
    return store, path


def asked(place: Remote, work: Callable[[Any, str], T]) -> T:
    """Ask the store something, patiently; raises `Unreadable` with what is wrong, and nothing else."""
    with plainly():
        store, path = filesystem(place)
        return patiently(lambda: work(store, path))


def state_of(place: Remote) -> State:
    """What the store says of an object: as it was listed, or now."""
    if place.state is not None:
        return place.state
    return state_in(info_of(place))


def info_of(place: Remote) -> dict[str, Any]:
    """What fsspec calls its info; of an object that is there."""
    return asked(place, lambda store, path: dict(store.info(path)))


def state_in(info: dict[str, Any]) -> State:
    """The state of an object, from what a listing says of it."""
    size = info.get("size")
    if size is None:
        raise Unreadable("the server does not say how large it is; download it first")
    version = next((str(info[key]) for key in _VERSIONS if info.get(key)), "")
    when = next((info[key] for key in _TIMES if info.get(key)), None)
    return State(int(size), _nanoseconds(when), version)


def exists(place: Remote) -> bool:
    """Whether there is an object, or anything below; raises `Unreadable` where that cannot be found out."""

    def look(store: Any, path: str) -> bool:
        try:
            store.info(path)
        except FileNotFoundError:
            return False
        return True

    try:
        return asked(place, look)
    except Unreadable as error:
        raise Unreadable(f"{place}: {error.reason}") from error


@contextmanager
def plainly() -> Iterator[None]:
    """Turn whatever a store's library raises into `Unreadable`, in plain words and without secrets."""
    try:
        yield
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_reason(error)) from None  # the original may name what must not be shown


def _reason(error: Exception) -> str:
    names = [kind.__name__ for kind in type(error).__mro__]
    if any(name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound") for name in names):
        return _NO_CREDENTIALS
    if isinstance(error, PermissionError):
        return "access was denied: the credentials that were found do not allow it, or there are none"
    if isinstance(error, FileNotFoundError):
        return "there is no such object or folder"
    tried = f"; tried {TRIES} times" if transient(error) else ""
    return scrubbed(failure_reason(error)) + tried


def scrubbed(text: str) -> str:
    """Take out of a message what may be secret: passwords and queries in URLs, values of the environment."""
    for name, value in os.environ.items():
        if len(value) > 3 and _SECRET.search(name):
            text = text.replace(value, "***")
    return _IN_URL.sub("***", text)


def _nanoseconds(when: Any) -> int:
    """A date as stores write it, in nanoseconds; 0 if it is none."""
    try:
        if isinstance(when, str):
            try:
                when = datetime.fromisoformat(when)
            except ValueError:
                when = parsedate_to_datetime(when)
        if isinstance(when, datetime):
            when = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        # In whole microseconds: one store writes the same date in several ways.
        return 0 if when is None else round(float(when) * 1e6) * 1000
    except (ValueError, TypeError, OverflowError):
        return 0
