"""Systems that GenTUS is compared with: lexical and language-model baselines, and research methods by type.

A method "of the X type" is written from what its paper says, with its own kind of components; its module
says what is as in the paper, what had to be replaced, and why.
"""

from gentus_bench.baselines.base import VALUES, Reports, Retriever, best, distinct, serving_mb
from gentus_bench.baselines.d3l import D3L
from gentus_bench.baselines.lexical import TfidfChars, TfidfNames, TfidfWords
from gentus_bench.baselines.liftus import LIFTus
from gentus_bench.baselines.minilm import MiniLMColumns
from gentus_bench.baselines.santos import Santos
from gentus_bench.baselines.sato import Sato
from gentus_bench.baselines.sherlock import Sherlock
from gentus_bench.baselines.starmie import Starmie, StarmieStatic
from gentus_bench.baselines.tactus import Tactus, TactusStatic

__all__ = [
    "D3L",
    "VALUES",
    "LIFTus",
    "MiniLMColumns",
    "Reports",
    "Retriever",
    "Santos",
    "Sato",
    "Sherlock",
    "Starmie",
    "StarmieStatic",
    "Tactus",
    "TactusStatic",
    "TfidfChars",
    "TfidfNames",
    "TfidfWords",
    "best",
    "distinct",
    "serving_mb",
]
