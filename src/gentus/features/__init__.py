"""Features: from the cells and names of a table to vectors of its columns and of the table.

In: sampled tables. Out: sparse counts (`extract`), their TF-IDF in latent semantic directions with static
token vectors (`evidence`), and a table's blocks (`blocks`). For language models, a table as tokens
(`serialize`) and column states (`bert`). May import `lake` and the modules of `gentus` itself.
"""
