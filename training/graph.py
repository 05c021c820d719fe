"""`graph.onnx`: a model without its large weights, which it names by where `model.onnx` holds them.

    python -m training.graph FOLDER

onnxruntime maps what a graph names in another file, and copies what stands in the graph itself: the
table of word pieces, half of the model, then takes memory only where texts touch it, and processes
on one machine share it. Nothing is stored twice, and the vectors are the same to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import onnx
from onnx import TensorProto
from onnx.external_data_helper import set_external_data

LEAST_BYTES = 4_096
_BYTES = (TensorProto.INT8, TensorProto.UINT8)
"""Elements that may begin anywhere in a file; wider ones would have to be aligned."""


def write_graph(folder: Path) -> None:
    """Write `graph.onnx` beside `model.onnx`, and its digest into `config.json`.

    Raises:
        ValueError: a weight does not stand in `model.onnx` as it is.
    """
    data = (folder / "model.onnx").read_bytes()
    model = onnx.load_model_from_string(data)
    for tensor in model.graph.initializer:
        if tensor.data_type not in _BYTES or len(tensor.raw_data) < LEAST_BYTES:
            continue
        offset = data.find(tensor.raw_data)
        if offset < 0:
            raise ValueError(f"{tensor.name} is not stored as raw bytes")
        set_external_data(tensor, "model.onnx", offset, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    graph = model.SerializeToString()
    (folder / "graph.onnx").write_bytes(graph)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["sha256"]["graph.onnx"] = hashlib.sha256(graph).hexdigest()
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    write_graph(parser.parse_args().folder)


if __name__ == "__main__":
    main()
