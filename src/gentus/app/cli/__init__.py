"""The command line: one module per group of commands, `main` puts them together.

Data goes to stdout, messages to stderr. Heavy imports are inside the commands, so that `--help` and a
first search start fast.
"""
