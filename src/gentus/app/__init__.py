"""The programs that people and other programs use: the command line, the server with its page, and the demo.

In: arguments, requests, files. Out: text for people, JSON for programs. It may import every other layer; no
other layer imports it.
"""
