"""Benchmarks, run by hand; every figure in the docs comes from their JSON."""

import armory  # noqa: F401  # pyright: ignore[reportUnusedImport] - telemetry off, before onnxruntime
