"""Retrieval (section 5 of the paper): from a latent and the prefix tree of identifiers to ranked rows.

In: a latent, the codebooks and the tree. Out: rows of the tree, best first, with their distances or scores.
`beam` ranks by residual distance alone; `generate` adds the log-probabilities of an autoregressive scorer.
May import `identifiers` and the layers before it.
"""
