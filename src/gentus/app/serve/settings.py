"""What a server allows, and to whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits, so that no request can take what others need."""

    token: str | None = None  # who has it may add and remove tables; without one, nobody may
    read_only: bool = False
    hosts: tuple[str, ...] = ()  # names by which it may be called, beside its own
    behind_proxy: bool = False  # a proxy on this machine says who asks
    upload_bytes: int = 64 << 20
    unpacked_bytes: int = 1 << 30  # of an upload that is compressed
    json_bytes: int = 8 << 20
    rows: int = 1_000_000  # of an upload
    json_rows: int = 10_000
    columns: int = 1000  # of a query
    hits: int = 100  # that can be asked for at once
    uploads: int = 400  # that are kept ...
    uploads_of_one: int = 100  # ... of one client
    uploads_bytes: int = 1 << 30
    upload_seconds: float = 3600.0  # that an upload is kept since it was last used
    bodies_bytes: int = 512 << 20  # of large requests that are being received or worked on
    body_seconds: float = 120.0  # that a client may take to send its request
    quick_seconds: float = 30.0  # that a search may take, waiting included
    slow_seconds: float = 120.0  # that a union may take, waiting included
    union_tables: int = 50
    union_rows: int = 5_000_000
    downloads: int = 20  # that clients may be reading at once ...
    downloads_of_one: int = 5  # ... one client
    quick_threads: int = 3
    together: int = 8  # searches that are done at once, if they wait ...
    shared_bytes: int = 256 << 10  # ... and are not larger than this
    slow_threads: int = 3
    waiting: int = 2000  # requests that may wait ...
    waiting_of_one: int = 500  # ... of one client
    map_points: int = 50_000
