"""A source in; all of its rows out, as a DuckDB relation, in bounded memory. For unions and pages of a table.

`open` chooses the reader of a format; the other modules read one kind of format each. It imports the formats.
"""
