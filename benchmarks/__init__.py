"""Benchmarks, run by hand; every figure in the docs comes from their JSON."""

import armory  # noqa: F401 - switches telemetry off, before onnxruntime is imported
