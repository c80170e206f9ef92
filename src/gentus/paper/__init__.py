"""GenTUS as its paper has it: the offline stage (section 5) and the online stage (section 6).

In: sampled tables and annotated pairs. Out: identifiers, and a generator that writes those of unionable
tables.
`README.md` says which function each symbol is, and what the paper leaves open. The only package that needs
torch; nothing is imported here, so that `gentus.paper.settings` is read without it.
"""
