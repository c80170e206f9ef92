"""Retries after failures that may pass: time-outs, overload, broken connections."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import TypeVar

from gentus.lake.base import log

T = TypeVar("T")

TRIES = 5
_FIRST = 0.2  # seconds to wait at most before the second try; before each further one twice as many ...
_LONGEST = 10.0  # ... up to this
_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,  # s3fs raises it for "slow down"
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EIO,  # s3fs raises it for an internal error of the server
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ETIMEDOUT,
}
_CODES = {408, 425, 429, 500, 502, 503, 504}
_NAMES = (  # of exceptions in libraries that may not be installed
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionClosedError",
    "ConnectTimeoutError",
    "EndpointConnectionError",
    "FSTimeoutError",
    "HTTPClientError",
    "IncompleteRead",
    "ReadTimeoutError",
    "ResponseParserError",  # botocore raises it for an answer that is cut off
    "ResponseStreamingError",
)


def with_retries(work: Callable[[], T], tries: int = TRIES) -> T:
    """Call a function; after a transient failure wait, longer each time, and call it again.

    Not tenacity: it would save six lines, cost 22 ms per process, and log messages that may hold secrets.
    """
    for number in range(1, tries):
        try:
            return work()
        except Exception as error:
            if not transient(error):
                raise
            # A random part of the limit, so that many clients that failed together do not retry together.
            wait = random.uniform(0, min(_LONGEST, _FIRST * 2**number))
            log.info("%s; trying again in %.1f s", type(error).__name__, wait)
            time.sleep(wait)
    return work()


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    if error.__cause__ is not None and transient(error.__cause__):  # s3fs hides the cause
        return True
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if any(base.__name__ in _NAMES for base in type(error).__mro__):
        return True
    return _status(error) in _CODES or (isinstance(error, OSError) and error.errno in _ERRNOS)


def _status(error: BaseException) -> int | None:
    """The HTTP status in an exception: aiohttp, requests and botocore keep it in different attributes."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        found = getattr(error, "status", None) or getattr(response, "status_code", None)
        found = found or getattr(error, "code", None)
    return found if isinstance(found, int) else None
