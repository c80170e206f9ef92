"""Iceberg tables (the `iceberg` extra): pyiceberg finds the files of the current snapshot, we open them.

pyiceberg's own way to open a table takes settings from the table's metadata, such as the Python class that
reads files and the address of the store. A file from others must not decide that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gentus.extras import install_extra
from gentus.lake.base import Unreadable
from gentus.lake.files import stream
from gentus.lake.formats.detect import METADATA, metadata_file
from gentus.lake.formats.lakehouse import LakehouseTable, inside, open_inside
from gentus.lake.location import Location, Remote

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST = 64 << 20  # bytes of metadata
_FIELD = b"PARQUET:field_id"


def open_iceberg(folder: Location) -> LakehouseTable:
    """Open the current snapshot of an Iceberg table."""
    try:
        from pyiceberg.utils.config import Config

        # Before others are loaded: it would read a `.pyiceberg.yaml` of the current folder.
        Config._from_configuration_files = staticmethod(lambda: None)  # type: ignore[method-assign]
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.table import StaticTable
        from pyiceberg.table.metadata import TableMetadataUtil
    except ImportError as error:
        raise Unreadable(f"reading Iceberg tables needs pyiceberg: {install_extra('iceberg')}") from error
    name, _ = metadata_file(folder)
    where = inside(folder, f"{METADATA}/{name}")
    text = bytearray()
    for piece in stream(where):
        text += piece
        if len(text) > _LARGEST:
            raise Unreadable("its metadata has more than 64 MB, which is too much; expire snapshots")
    metadata = TableMetadataUtil.parse_raw(text.decode())
    location = metadata.location

    def table(full: bool) -> Any:
        io = _files_of(folder, location, full)
        return StaticTable(("gentus", name), metadata, str(where), io, NoopCatalog("gentus"))

    return _opened(table)


def _opened(table: Any) -> LakehouseTable:
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    sampled = table(False)
    scan = sampled.scan()
    tasks = list(scan.plan_files())
    # Where rows were deleted from a file, the sample is taken from others if there are any.
    tasks = [task for task in tasks if not task.delete_files] or tasks
    schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)

    def first(number: int, rows: int) -> pa.Table:
        task = tasks[number]
        if task.delete_files or task.file.file_format.value != "PARQUET":
            read = ArrowScan(sampled.metadata, sampled.io, scan.projection(), scan.row_filter, limit=rows)
            return read.to_table([task])
        with sampled.io.new_input(task.file.file_path).open() as file:
            return _first(file, scan.projection(), rows)

    def all_rows(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        full = table(True)
        chosen = full.scan(selected_fields=tuple(columns))
        read = ArrowScan(full.metadata, full.io, chosen.projection(), chosen.row_filter)
        for task in chosen.plan_files():  # one by one: it holds all rows of the files it is given
            for batch in read.to_record_batches([task]):
                yield batch.select(list(columns))

    return LakehouseTable(schema, len(tasks), first, all_rows)


def _first(file: Any, schema: Any, rows: int) -> pa.Table:
    """Read the first rows of a Parquet file page by page; columns are matched by id, since names change."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
    physical = parquet.schema_arrow
    names = {int((column.metadata or {}).get(_FIELD, -1)): column.name for column in physical}
    batch = next(parquet.iter_batches(batch_size=rows), None)
    if batch is None:
        return pa.table({column.name: pa.nulls(0) for column in schema.fields})
    found = {}
    for column in schema.fields:
        name = names.get(column.field_id, column.name if -1 in names else None)
        known = name in physical.names
        found[column.name] = batch.column(name) if known else pa.nulls(batch.num_rows)
    return pa.table(found)


def _files_of(folder: Location, location: str, full: bool) -> Any:
    """The files of this folder for pyiceberg, read-only."""
    from pyiceberg.io import FileIO, InputFile

    class Inside(InputFile):
        """A file of the table."""

        def __init__(self, named: str) -> None:
            super().__init__(named)
            self._file = inside(folder, named, location)

        def __len__(self) -> int:
            with self.open() as file:
                return int(file.seek(0, 2))

        def exists(self) -> bool:
            if isinstance(self._file, Remote):
                from gentus.lake.remote.storage import exists

                return exists(self._file)
            return self._file.exists()

        def open(self, seekable: bool = True) -> Any:
            return open_inside(self._file, full)

    class Files(FileIO):
        """The files of the table."""

        def new_input(self, location: str) -> Inside:
            return Inside(location)

        def new_output(self, location: str) -> Any:
            raise PermissionError("lakes are not written to")

        def delete(self, location: Any) -> None:
            raise PermissionError("lakes are not written to")

    return Files()
