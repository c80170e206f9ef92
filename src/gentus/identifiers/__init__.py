"""Semantic identifiers: from latents to codes, and suffixes where codes collide.

In: (T, d) unit latents of tables, from `embed`. Out: L residual codebooks of K codewords, (T, L) codes, and a
suffix for every table whose codes another table has, too. May import `embed` and the layers before it.
"""
