"""SQL laid out for people: a line for every column, nested queries indented."""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\(SELECT |SELECT |[()]|, | FROM |\n *|[^'"(),\n FS]+|.""", re.DOTALL
)


def laid_out(sql: str) -> str:
    """The same SQL in lines; what is in quotes or in other parentheses stays as it is."""
    out: list[str] = []
    open_queries: list[bool] = [True]  # for every open parenthesis: whether a query is in it

    def line(more: int = 0) -> str:
        return "\n" + "    " * (sum(open_queries) - 1 + more)

    for piece in _PIECES.findall(sql):
        inside = open_queries[-1]
        if piece == "(SELECT ":
            open_queries.append(True)
            out.append(f"({line()}SELECT{line(1)}")
        elif piece == "SELECT " and inside:
            out.append(f"SELECT{line(1)}")
        elif piece == "(":
            open_queries.append(False)
            out.append(piece)
        elif piece == ")":
            was_query = open_queries.pop()
            out.append(f"{line()})" if was_query else piece)
        elif piece == ", " and inside:
            out.append(f",{line(1)}")
        elif piece == " FROM " and inside:
            out.append(f"{line()}FROM ")
        else:
            out.append(piece.replace("\n", line()) if piece.startswith("\n") else piece)
    return "".join(out)
