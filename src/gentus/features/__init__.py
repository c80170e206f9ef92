"""Features: from the cells and names of a table to vectors of its columns and of the table.

In: sampled tables. Out: sparse counts (`extract`), and their TF-IDF in latent semantic directions
(`vocabulary`) with static token vectors (`weights`) as vectors of columns and blocks of tables (`evidence`).
May import `lake` and the modules of `gentus` itself.
"""
