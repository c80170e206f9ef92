"""Measurements against baselines: `quality` scores rankings on lakes with a ground truth."""

from gentus.bench.baselines import Retriever, TfidfChars, TfidfWords

__all__ = ["Retriever", "TfidfChars", "TfidfWords"]
