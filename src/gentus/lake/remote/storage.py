"""Object stores, through fsspec: their listings, the state of objects, and failures in plain words.

The client library of a store finds the credentials (environment, profiles, instance roles). They are never
asked for, stored or shown here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from gentus.extras import install
from gentus.lake.base import Unreadable, failure_reason
from gentus.lake.location import Remote, State
from gentus.lake.remote.retry import TRIES, transient, with_retries

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


def filesystem(location: Remote) -> tuple[Any, str]:
    """The client of a store, and the path of an object in it."""
    from fsspec.core import url_to_fs

    # No cached listings, since objects change; no retries by clients, since ours are the same for all stores.
    options: dict[str, Any] = {"use_listings_cache": False}
    if is_s3(location):
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    try:
        store, path = url_to_fs(location.url, **options)
    except ImportError as error:
        package = _PACKAGES.get(location.scheme)
        what = install(package) if package else scrubbed(str(error))
        raise Unreadable(
            f"reading {location.scheme}:// needs a package that is not installed: {what}"
        ) from error
    except ValueError as error:
        raise Unreadable(scrubbed(str(error))) from error
    if hasattr(store, "call_s3"):
        store.retries = 1
    return store, path


def call_store(location: Remote, work: Callable[[Any, str], T]) -> T:
    """Call a store with retries; raises `Unreadable` with the reason of a failure, and nothing else."""
    with plain_errors():
        store, path = filesystem(location)
        return with_retries(lambda: work(store, path))


def state_of(location: Remote) -> State:
    """The state of an object: as it was listed, or as it is now."""
    if location.state is not None:
        return location.state
    return state_in(info_of(location))


def info_of(location: Remote) -> dict[str, Any]:
    """The `info` that fsspec has of an object."""
    return call_store(location, lambda store, path: dict(store.info(path)))


def state_in(info: dict[str, Any]) -> State:
    """The state of an object, from its `info`."""
    size = info.get("size")
    if size is None:
        raise Unreadable("the server does not say how large it is; download it first")
    version = next((str(info[key]) for key in _VERSIONS if info.get(key)), "")
    when = next((info[key] for key in _TIMES if info.get(key)), None)
    return State(int(size), _nanoseconds(when), version)


def exists(location: Remote) -> bool:
    """Whether there is an object, or anything below; raises `Unreadable` where that cannot be found out."""

    def look(store: Any, path: str) -> bool:
        try:
            store.info(path)
        except FileNotFoundError:
            return False
        return True

    try:
        return call_store(location, look)
    except Unreadable as error:
        raise Unreadable(f"{location}: {error.reason}") from error


def is_directory(location: Remote) -> bool:
    """Whether a URL is that of a folder."""
    return info_of(location).get("type") == "directory"


def s3_objects(folder: Remote) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and info of all objects below a folder of S3, in the order of names, a thousand per request."""
    bucket, _, prefix = folder.url.partition("://")[2].partition("/")
    prefix = f"{prefix}/" if prefix else ""
    more: dict[str, str] = {}
    while True:
        page = call_store(
            folder,
            lambda store, _: store.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **more),  # noqa: B023
        )
        for found in page.get("Contents", []):
            yield found["Key"][len(prefix) :], {**found, "size": found["Size"]}
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def entries_of(lake: Remote, prefix: str = "") -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Name and info of the entries of one folder of a lake, in any order; folders have no info."""
    http = lake.scheme in ("http", "https")

    def look(store: Any, path: str) -> list[dict[str, Any]]:
        below = f"{path.rstrip('/')}/{prefix}"
        try:
            return list(store.ls(below if http else below.rstrip("/") or "/", detail=True))
        except FileNotFoundError:
            return []

    for info in call_store(lake, look):
        name = str(info["name"]).rstrip("/").rsplit("/", 1)[-1]
        # Links of a page that lead elsewhere are not part of the lake.
        inside = not http or str(info["name"]).rstrip("/") == f"{lake.url}/{prefix}{name}"
        if name and inside and not (http and set("?#") & set(name)) and name not in (".", ".."):
            yield prefix + name, None if info.get("type") == "directory" else info


def files_in(folder: Remote) -> dict[str, State]:
    """The objects of a folder, by name; none if there is no such folder."""
    listed = s3_objects(folder) if is_s3(folder) else entries_of(folder)
    inner = ((name, info) for name, info in listed if info is not None and name and "/" not in name)
    return {name: state_from(folder / name, info) for name, info in inner}


def is_s3(location: Remote) -> bool:
    """Whether it is an object or folder of S3."""
    return location.scheme in ("s3", "s3a")


def state_from(location: Remote, info: dict[str, Any]) -> State:
    """The state of a listed object; listings of web pages may not have the size, which is then asked for."""
    return state_in(info if info.get("size") is not None else info_of(location))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn all that a client library raises into `Unreadable`, in plain words and without secrets."""
    try:
        yield
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_reason(error)) from None  # the original may hold secrets


def _reason(error: Exception) -> str:
    names = [base.__name__ for base in type(error).__mro__]
    if any(name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound") for name in names):
        return _NO_CREDENTIALS
    if isinstance(error, PermissionError):
        return "access was denied: the credentials that were found do not allow it, or there are none"
    if isinstance(error, FileNotFoundError):
        return "there is no such object or folder"
    tried = f"; tried {TRIES} times" if transient(error) else ""
    return scrubbed(failure_reason(error)) + tried


def scrubbed(text: str) -> str:
    """A message without possible secrets: passwords and queries in URLs, values of the environment."""
    for name, value in os.environ.items():
        if len(value) > 3 and _SECRET.search(name):
            text = text.replace(value, "***")
    return _IN_URL.sub("***", text)


def _nanoseconds(when: Any) -> int:
    """A date in any of the forms that stores use, in nanoseconds; 0 if it is none."""
    try:
        if isinstance(when, str):
            try:
                when = datetime.fromisoformat(when)
            except ValueError:
                when = parsedate_to_datetime(when)
        if isinstance(when, datetime):
            when = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        # Rounded to microseconds: one store writes the same date with several precisions.
        return 0 if when is None else round(float(when) * 1e6) * 1000
    except (ValueError, TypeError, OverflowError):
        return 0
