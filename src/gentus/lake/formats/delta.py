"""Delta tables (the `delta` extra): deltalake reads the log, we read the data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.extras import install_extra
from gentus.lake.base import Unreadable
from gentus.lake.files import stream_raw
from gentus.lake.formats.detect import DELTA_LOG
from gentus.lake.formats.lakehouse import LakehouseTable, inside, open_inside
from gentus.lake.location import Location, Remote
from gentus.scratch_folder import temporary_folder
from gentus.table import Limits

if TYPE_CHECKING:
    import pyarrow as pa


def open_delta(folder: Location, limits: Limits) -> LakehouseTable:
    """Open a Delta table. The log of one at a URL is copied, so that deltalake itself fetches nothing."""
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise Unreadable(f"reading Delta tables needs deltalake: {install_extra('delta')}") from error
    if isinstance(folder, Remote):
        with temporary_folder("delta") as scratch:
            _copy_log(folder, scratch, limits)
            return _opened(DeltaTable(scratch), folder)
    return _opened(DeltaTable(folder.resolve()), folder)


def _copy_log(folder: Remote, scratch: Path, limits: Limits) -> None:
    from gentus.lake.remote.storage import files_in

    log = files_in(folder / DELTA_LOG)
    size = sum(state.size for state in log.values())
    if size > limits.typed_bytes:
        raise Unreadable(
            f"its log has {size / 1e6:,.0f} MB, which is too much; write a checkpoint and clean it"
        )
    (scratch / DELTA_LOG).mkdir()
    for name, state in log.items():
        with (scratch / DELTA_LOG / Path(name).name).open("wb") as file:
            for piece in stream_raw(Remote((folder / DELTA_LOG / name).url, state)):
                file.write(piece)


def _opened(table: Any, folder: Location) -> LakehouseTable:
    import pyarrow.dataset as pads

    dataset = table.to_pyarrow_dataset(filesystem=_only(folder, full=False))
    fragments = list(dataset.get_fragments())
    cheap = pads.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=1 << 16, pre_buffer=False)

    def first(number: int, rows: int) -> pa.Table:
        import pyarrow as pa

        scanner = fragments[number].scanner(
            schema=dataset.schema,
            batch_size=rows,
            batch_readahead=0,
            fragment_readahead=0,
            fragment_scan_options=cheap,
            use_threads=False,
        )
        found = next((batch for batch in scanner.to_batches() if batch.num_rows), None)
        some = [] if found is None else [found.slice(0, rows)]
        return pa.Table.from_batches(some, dataset.schema)

    def all_rows(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        full = table.to_pyarrow_dataset(filesystem=_only(folder, full=True))
        yield from full.to_batches(columns=list(columns), fragment_readahead=1, batch_readahead=2)

    return LakehouseTable(dataset.schema, len(fragments), first, all_rows)


def _only(folder: Location, full: bool) -> pa.fs.FileSystem:
    """A file system with the files of this folder and no others."""
    from fsspec import AbstractFileSystem
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    class Only(AbstractFileSystem):  # type: ignore[misc]
        """Paths are taken as relative to one folder."""

        protocol = "gentus-delta"
        cachable = False

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return open_inside(inside(folder, path), full)

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            with self._open(path) as file:
                return {"name": path, "size": file.seek(0, 2), "type": "file"}

    return PyFileSystem(FSSpecHandler(Only()))
