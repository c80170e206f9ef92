"""The latent space: from evidence and the neighbour graph to one unit vector per table.

In: blocks of tables, and their affinity graph. Out: an encoder in closed form (`closed_form`), and (T, d)
latents, smoothed with their neighbours (`smoothing`). May import `neighbours` and the layers before it.
"""
