"""The neighbour graph: which tables of a lake belong together, with or without labels.

In: vectors of tables and of their columns; annotated pairs where there are any. Out: for every table its
scored neighbours. May import `features` and the layers before it.
"""
