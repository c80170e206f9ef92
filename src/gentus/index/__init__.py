"""An index: a folder on disk that is built from a lake, searched, updated and checked.

In: the tables of a lake, and labels if there are any. Out: ranked hits, alignments and plans of unions.
`build` makes the folder, `index.Index` opens it; `snapshot`, `ranker` and `hits` are a search in this order.
May import every package but `app`.
"""
