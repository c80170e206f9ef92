"""The settings of a server: who may change the index, and the limits of requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Access and limits. The limits keep any request from taking what others need."""

    token: str | None = None  # required to add and remove tables; without one, the index cannot be changed
    read_only: bool = False
    hosts: tuple[str, ...] = ()  # accepted Host names, in addition to its own
    behind_proxy: bool = False  # a proxy on this machine sends X-Forwarded-For
    upload_bytes: int = 64 << 20
    unpacked_bytes: int = 1 << 30  # of an upload that is compressed
    json_bytes: int = 8 << 20
    rows: int = 1_000_000  # of an upload
    json_rows: int = 10_000
    columns: int = 4000  # of a query
    uploads: int = 400  # that are kept ...
    uploads_of_one: int = 100  # ... per client
    uploads_bytes: int = 1 << 30
    upload_seconds: float = 3600.0  # that an unused upload is kept
    bodies_bytes: int = 512 << 20  # of large request bodies in progress
    connections: int = 2000  # at once, if this process may open three times as many files
    idle_seconds: float = 30.0  # that a connection may be without a whole head of a request
    body_seconds: float = 120.0  # that a client may take to send its request, or read nothing of a response
    quick_seconds: float = 30.0  # that a search may take, waiting included
    slow_seconds: float = 120.0  # that a union may take, waiting included
    union_tables: int = 50
    union_rows: int = 5_000_000
    downloads: int = 20  # at the same time ...
    downloads_of_one: int = 5  # ... per client
    quick_threads: int = 3
    batch_size: int = 8  # waiting searches that run as one batch ...
    batch_bytes: int = 256 << 10  # ... if their requests are not larger than this
    slow_threads: int = 3
    waiting: int = 2000  # requests that may wait ...
    waiting_of_one: int = 500  # ... per client
    map_points: int = 50_000
