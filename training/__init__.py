"""Training of the embedder that ships with Armory. Nothing here is needed at run time."""

import armory  # noqa: F401  # pyright: ignore[reportUnusedImport] - telemetry off, before onnxruntime
