"""Benchmarks, run by hand; every figure in the docs comes from their JSON."""
