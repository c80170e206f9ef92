"""What is measured, an experiment per module (some have helpers): `run`, `tables` and, for some, `plot`.

In: a `Request` with the options that all experiments share. Out: documents, in the folder of results.
"""
