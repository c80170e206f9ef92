"""One file, folder or table of a server in; a sampled `Table` out.

`detect` tells the format, the other modules read one each. They import `location`, `base`, `files` and
`remote`. What needs an extra is imported when it is used.
"""
