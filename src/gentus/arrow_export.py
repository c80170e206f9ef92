"""Results as Arrow, and through it as pandas, polars and Hugging Face `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gentus.extras import install

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowExport:
    """What can be read as a stream of Arrow batches; `to_reader` is what a class has to define.

    Libraries with the Arrow PyCapsule interface take it as it is: `polars.DataFrame(plan)`,
    `pyarrow.table(union)`, `duckdb.sql("FROM union")`.
    """

    __slots__ = ()

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows, as a stream."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, for other libraries."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """All rows, in memory, for pandas."""
        with _installed("pandas"):
            import pandas  # noqa: F401 - what Arrow converts to
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows, in memory, for polars."""
        with _installed("polars"):
            import polars
        return polars.from_arrow(self.to_arrow())

    def to_dataset(self) -> Any:
        """All rows, in memory, as a Hugging Face `datasets.Dataset`."""
        with _installed("datasets"):
            from datasets import Dataset
        return Dataset(self.to_arrow())


@contextmanager
def _installed(package: str) -> Iterator[None]:
    """Say how to install a package that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(f"{package} is not installed. Run: {install(package)}") from error
