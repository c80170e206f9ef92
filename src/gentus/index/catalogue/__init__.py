"""The catalogue of an index: an SQLite file that says which tables there are and which files are current.

Rows in, rows out; every change is a transaction with a number, the change sequence. Imports the lake, the
index folder and its configuration, nothing else of the index.
"""

from gentus.index.catalogue.catalogue import Catalogue, Listed, explain_errors
from gentus.index.catalogue.chunks import FeatureSlots
from gentus.index.catalogue.identifiers import Identified
from gentus.index.catalogue.row_checksums import AlteredError
from gentus.index.catalogue.signatures import SignedColumns
from gentus.index.catalogue.tables import Entry, TableName, TableShape

__all__ = [
    "AlteredError",
    "Catalogue",
    "Entry",
    "FeatureSlots",
    "Identified",
    "Listed",
    "SignedColumns",
    "TableName",
    "TableShape",
    "explain_errors",
]
