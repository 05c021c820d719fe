"""Export an encoder to the int8 ONNX folder that ships with Armory.

Usage: python -m training.export --out armory/retrieval/models/embedded --identity NAME
[--weights run/model.safetensors ...] [--factor 0.75] [--meta meta.json]

Several weights are averaged; `--factor` then interpolates with the untouched base.

The graph pools and normalises by itself: `input_ids`, `attention_mask` → `embedding`. Word
vectors are kept in int8 with one scale a row; every matrix product is quantised per channel
(int8 weights, dynamic uint8 activations).
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

from training.encoder import Encoder, blend, load_encoder, load_tokenizer

MAX_TOKENS = 256


class Deployed(Encoder):
    """The encoder with word vectors in int8 and fewer position rows: what the graph holds."""

    def __init__(self, source: Encoder) -> None:
        super().__init__(source.shape, fused=False)
        self.load_state_dict(source.state_dict())
        self.positions = nn.Embedding.from_pretrained(source.positions.weight[:MAX_TOKENS].clone())
        rows = source.words.weight.detach()
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("row_scale", scale)
        self.register_buffer("row_values", (rows / scale).round().to(torch.int8))
        del self.words

    def embed_words(self, ids: Tensor) -> Tensor:
        """Look the int8 rows up, then scale them."""
        return self.row_values[ids].to(torch.float32) * self.row_scale[ids]  # type: ignore[index]


def to_onnx(model: nn.Module, path: Path) -> None:
    """Write the fp32 graph with free batch and length axes."""
    ids = torch.randint(1000, 20000, (2, 16))
    mask = torch.ones_like(ids)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        model.eval(),
        (ids, mask),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "embedding": {0: "batch"}},
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
    """Write `model.onnx`, `tokenizer.json` and `config.json`; returns the config."""
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
