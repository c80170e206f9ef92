"""The generator (sections 4.3 and 4.4 of the paper): a T5 trained to write identifiers, and its decoding.

In: annotated pairs, the prefix tree, and column states or text of tables. Out: a trained T5, how much its
log-probability counts beside the prior, and rankings. May import `retrieval` and the layers before.
"""
