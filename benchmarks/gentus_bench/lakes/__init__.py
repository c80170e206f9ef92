"""Benchmark data: public benchmarks as they are published, and lakes that are cut from real tables."""
