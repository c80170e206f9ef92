"""Measures GenTUS beside other systems: experiments on lakes with ground truth, their results and the report.

`lakes` reads and makes benchmark data, `baselines` has the other systems, `experiments` what is measured
(listed in `registry`), `results` the folder that documents go to, `report` makes docs/RESULTS.md of them.
It imports `gentus`; `gentus` never imports it.
"""
