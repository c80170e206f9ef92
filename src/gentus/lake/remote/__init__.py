"""A URL in; listings, states and bytes of objects out, through fsspec, with retries and without secrets.

It imports `location` and `base`; fsspec and the clients of stores (the `remote` extra) when they are used.
"""
