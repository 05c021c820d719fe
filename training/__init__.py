"""Training of the embedder that ships with Armory. Nothing here is needed at run time."""

import armory  # noqa: F401 - switches telemetry off, before onnxruntime is imported
