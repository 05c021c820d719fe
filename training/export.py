"""Export an encoder to the int8 ONNX folder that ships with Armory.

Usage: python -m training.export --out armory/retrieval/models/embedded --identity NAME
[--weights run/model.safetensors ...] [--factor 0.75] [--meta meta.json]

Several weights are averaged; `--factor` then interpolates with the untouched base.

The graph: `input_ids`, `attention_mask` → `embedding`, pooled and of unit length, and
`last_hidden_state`, of which clauses are pooled. Word vectors are kept in int8 with one scale a
row; every matrix product is quantised per channel (int8 weights, dynamic uint8 activations).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn
from torch.nn import functional as F

from training.encoder import Encoder, Layer, Shape, blend, load_encoder, load_tokenizer
from training.graph import write_graph

MAX_TOKENS = 256


class Deployed(nn.Module):
    """The encoder as the graph holds it: word vectors in int8, fewer position rows, the three
    projections of attention as one matrix.
    """

    def __init__(self, source: Encoder) -> None:
        super().__init__()
        self.shape, self.source = source.shape, source
        self.places = nn.Parameter(source.positions.weight[:MAX_TOKENS] + source.segment.weight[0])
        rows = source.words.weight.detach()
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("row_scale", scale)
        self.register_buffer("row_values", (rows / scale).round().to(torch.int8))
        self.projections = nn.ModuleList(_projection(layer, self.shape) for layer in source.layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """(b, t) ids and mask → (b, d) unit vectors and (b, t, d) of the tokens, in context."""
        heads, width = self.shape.heads, self.shape.width
        words = self.row_values[input_ids].to(torch.float32) * self.row_scale[input_ids]  # type: ignore[index]
        x = self.source.norm(words + self.places[: input_ids.shape[1]])
        mask = attention_mask.to(x.dtype)
        bias = (1.0 - mask)[:, None, None, :] * -1e4
        for layer, projection in zip(self.source.layers, self.projections, strict=True):
            parts = projection(x).view(x.shape[0], -1, 3 * heads, width // heads).transpose(1, 2)
            q, k, v = parts.split(heads, 1)
            attended = (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v
            x = layer.norm1(x + layer.out(attended.transpose(1, 2).reshape(x.shape)))
            x = layer.norm2(x + layer.down(F.gelu(layer.up(x))))
        # By the length, which the mean would be divided by, nothing changes: it is normalised.
        return F.normalize((mask[:, None, :] @ x)[:, 0], dim=-1), x


def _projection(layer: Layer, shape: Shape) -> nn.Linear:
    """Query, key and value in one; the query's scale within."""
    joined, scale = nn.Linear(shape.width, 3 * shape.width), (shape.width // shape.heads) ** -0.5
    with torch.no_grad():
        for part in ("weight", "bias"):
            q, k, v = (getattr(one, part) for one in (layer.q, layer.k, layer.v))
            getattr(joined, part).copy_(torch.cat([q * scale, k, v]))
    return joined


def to_onnx(model: nn.Module, path: Path) -> None:
    """Write the fp32 graph with free axes."""
    ids = torch.randint(1000, 20000, (2, 16))
    tokens = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        model.eval(),
        (ids, torch.ones_like(ids)),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding", "last_hidden_state"],
        dynamic_axes={
            "input_ids": tokens,
            "attention_mask": tokens,
            "embedding": {0: "batch"},
            "last_hidden_state": tokens,
        },
        opset_version=17,
        dynamo=False,
    )


def quantise(source: Path, target: Path, reduce_range: bool = True) -> None:
    """Dynamic int8 for every weight matrix, one scale a channel.

    `reduce_range` keeps the weights in seven bits, so that processors without VNNI cannot
    overflow their 16-bit sums; the loss is not measurable here.
    """
    quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        reduce_range=reduce_range,
        weight_type=QuantType.QInt8,
        extra_options={"MatMulConstBOnly": True},
    )


def export(
    source: Encoder, out: Path, identity: str, meta: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write `model.onnx`, `graph.onnx`, `tokenizer.json` and `config.json`; returns the config."""
    out.mkdir(parents=True, exist_ok=True)
    model = Deployed(source)
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain.onnx"
        to_onnx(model, plain)
        quantise(plain, out / "model.onnx")
    onnx.checker.check_model(str(out / "model.onnx"))
    load_tokenizer().save(str(out / "tokenizer.json"), pretty=False)
    config: dict[str, Any] = {
        "identity": identity,
        "dimension": model.shape.width,
        "max_tokens": MAX_TOKENS,
        "pooling": "mean",
        "normalised": True,
        "query_prefix": "",
        "doc_prefix": "",
        "sha256": {
            name: hashlib.sha256((out / name).read_bytes()).hexdigest()
            for name in ("model.onnx", "tokenizer.json")
        },
        **(meta or {}),
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    write_graph(out)
    return config


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--weights", type=Path, nargs="+", help="default: the untouched base")
    parser.add_argument("--factor", type=float, default=1.0, help="1: the trained weights alone")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--identity", required=True, help="changes whenever the vectors change")
    parser.add_argument("--meta", type=Path, help="JSON object merged into config.json")
    args = parser.parse_args()
    meta = json.loads(args.meta.read_text(encoding="utf-8")) if args.meta else None
    source = load_encoder(fused=False)
    if args.weights:
        source.load_state_dict(blend(args.weights, args.factor))
    config = export(source, args.out, args.identity, meta)
    size = (args.out / "model.onnx").stat().st_size / 1e6
    print(f"{config['identity']}: model.onnx {size:.1f} MB")


if __name__ == "__main__":
    main()
