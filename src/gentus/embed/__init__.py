"""The latent space: from evidence and the neighbour graph to one unit vector per table.

In: blocks or column evidence of tables, and their affinity graph. Out: an encoder, and (T, d) latents.
Without labels it is a closed form (`closed_form`, `smoothing`); with labels a network (`encoder` runs it with
NumPy, `training` learns it with torch). May import `neighbours` and the layers before it.
"""
