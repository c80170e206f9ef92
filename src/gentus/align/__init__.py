"""Column alignment: which columns of two tables belong together, one-to-one, with scores and reasons.

In: two sampled tables. Out: an `Alignment`. It may import `features`, `lake` and what is before them.
In the order of the work: `table_profile` (columns as arrays; `numeric_values` parses numbers and dates),
`pair_features` (with `name_similarity`), `context_features` (given the other pairs), `matcher` (scores by the
learnt `weights.json`, and the one-to-one assignment), `reasons` (in words).

For many tables at once, from what the index keeps of them: `signatures` (188 bytes a column), `second_look`
(matches by signatures), `verdict` (the probability that a table fits, by the learnt `verdict.json`).
"""
