"""Programs that try to break GenTUS: damaged files, crashes, very many files, a browser.

`make fuzz` and `make soak` run them, or `PYTHONPATH=tests python -m stress.files`; `make test` has short
runs.
"""
