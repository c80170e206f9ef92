"""Retrieval: from a query and the prefix tree of identifiers to ranked rows.

In: a query, the codebooks and the tree. Out: rows of the tree, best first, with their distances or scores.
`beam` ranks by residual distance; `retriever` is the seam behind which an index has that or the generator.
May import `identifiers` and the layers before it.
"""
