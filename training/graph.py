"""`graph.onnx`: a model for one text at a time, without its large weights.

    python -m training.graph FOLDER

Weights are named by where `model.onnx` holds them: onnxruntime maps what a graph names in another
file, and copies what stands in the graph itself. The table of word pieces, half of the model, then
takes memory only where texts touch it, and processes on one machine share it; nothing is stored
twice.

The steps are fewer than in `model.onnx`, which takes padded batches. Every token of a single text
counts, so that nothing is added to the scores of attention (the mask is still pooled by); shapes
stand there and are not worked out in every run; keys are multiplied as they stand. The vectors of a
text are the same to the last bit, in a tenth less time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

LEAST_BYTES = 4_096
_BYTES = (TensorProto.INT8, TensorProto.UINT8)
"""Elements that may begin anywhere in a file; wider ones would have to be aligned."""
_MICROSOFT = "com.microsoft"


def write_graph(folder: Path) -> None:
    """Write `graph.onnx` beside `model.onnx`, and its digest into `config.json`.

    Raises:
        ValueError: the model is not as `training.export` writes it.
    """
    data = (folder / "model.onnx").read_bytes()
    model = onnx.load_model_from_string(data)
    _shorten(model)
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


def _shorten(model: Any) -> None:
    """Take out what a single text has no need of."""
    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    for softmax in [node for node in graph.node if node.op_type == "Softmax"]:
        masked = made[softmax.input[0]]
        scores = made[masked.input[0]]
        keys = made[scores.input[1]]
        if (masked.op_type, scores.op_type, keys.op_type) != ("Add", "MatMul", "Transpose"):
            raise ValueError(f"{softmax.name} is of another attention")
        softmax.input[0] = masked.input[0]
        scores.input[1] = keys.input[0]
        scores.op_type, scores.domain = "FusedMatMul", _MICROSOFT
        scores.attribute.append(helper.make_attribute("transB", 1))
    model.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    for node in graph.node:
        if node.op_type == "Reshape":
            graph.initializer.append(_shape_for(node, made))
    _drop_unused(graph)


def _shape_for(reshape: NodeProto, made: dict[str, NodeProto]) -> TensorProto:
    """The shape that is worked out for a node, as one that stands there; the node takes it.

    It keeps batch and tokens (0). Of the rest constants know all but the width (-1).
    """
    parts = [made[name] for name in made[reshape.input[1]].input]
    known = [
        numpy_helper.to_array(part.attribute[0].t).item()
        for part in parts[2:]
        if part.op_type == "Constant"
    ]
    name = f"{reshape.output[0]}_shape"
    reshape.input[1] = name
    return numpy_helper.from_array(np.array([0, 0, *(known or [-1])], np.int64), name)


def _drop_unused(graph: Any) -> None:
    """Remove the steps and constants of which nothing comes."""
    used: set[str] = {output.name for output in graph.output}
    for node in reversed(graph.node):  # in order: what a node reads is made before it
        if used.intersection(node.output):
            used.update(node.input)
    for values in (graph.node, graph.initializer):
        kept = [v for v in values if used.intersection(getattr(v, "output", None) or [v.name])]
        del values[:]
        values.extend(kept)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    write_graph(parser.parse_args().folder)


if __name__ == "__main__":
    main()
