"""Read an exported int8 folder back into weights, to average with others or to go on from.

Usage: python -m training.restore FOLDER --out run/shipped/model.safetensors

The word and position vectors are frozen in training, so they are the base's. The rest is exact up
to the rounding to seven bits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from training.encoder import load_encoder, save_state

_MATRICES = ("q", "k", "v", "out", "up", "down")


def matrices(graph: onnx.GraphProto, arrays: dict[str, np.ndarray]) -> list[Tensor]:
    """(out, in) of every quantised product, in the order of the graph."""
    found = []
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            name = node.input[1].removesuffix("_quantized")
            zero = np.asarray(arrays[f"{name}_zero_point"], np.float32)
            values = (arrays[node.input[1]].astype(np.float32) - zero) * arrays[f"{name}_scale"]
            found.append(torch.from_numpy(np.ascontiguousarray(values.T, np.float32)))
    return found


def restore(folder: Path) -> dict[str, Tensor]:
    """The state of the encoder that was exported."""
    model = onnx.load(str(folder / "model.onnx"))
    arrays = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    state = load_encoder(fused=False).state_dict()
    every = matrices(model.graph, arrays)
    layers = len(every) // len(_MATRICES)
    for layer in range(layers):
        names = [f"layers.{layer}.{part}.weight" for part in _MATRICES]
        for found in every[layer * len(_MATRICES) : (layer + 1) * len(_MATRICES)]:
            alike = {  # the graph does not name them: each is nearest to what it was trained from
                n: float((state[n] * found).sum() / state[n].norm() / found.norm())
                for n in names
                if state[n].shape == found.shape
            }
            best = max(alike, key=lambda n: alike[n])
            assert alike[best] > 0.9, (best, alike[best])
            state[best] = found
            names.remove(best)
    for name, values in arrays.items():
        if name in state and not name.startswith(("words", "positions")):
            state[name] = torch.from_numpy(values.copy())
    return state


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    save_state(restore(args.folder), args.out)


if __name__ == "__main__":
    main()
