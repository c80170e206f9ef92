"""Measurements: quality against baselines on lakes with a ground truth, time, memory and size."""
