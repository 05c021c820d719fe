"""Fine-tune the encoder for query → tool.

Usage: python -m training.train DATA --mined mined --out run/final [--leave-out a] [--device cuda]

InfoNCE over in-batch tools and mined hard negatives; every step mixes a group drawn from one
labelled catalog (its own tools are the hardest in-batch negatives), a group of the small sets,
a group of hand-written queries and one of template queries over the tools of the pools. Two leashes
hold the model to the base: the weights are pulled back towards it at every step, and the averaged
weights can be interpolated with it afterwards (`training.export --factor`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from training.batches import Batch, Rows, Settings, Sources, drawn
from training.data import FOLDS
from training.encoder import Encoder, autocast, load_encoder, save_state


def embed(model: Encoder, rows: Rows, device: str) -> Tensor:
    """(r, d) vectors with gradient."""
    parts = []
    for piece in rows.pieces:
        given = (torch.from_numpy(a).to(device) for a in (piece.ids, piece.mask, piece.counted))
        with autocast(device):
            parts.append(model(*given))
    return torch.cat(parts)[torch.from_numpy(rows.back).to(device)]


def train(
    batches: Iterable[Batch],
    settings: Settings,
    out: Path,
    start: Path | None = None,
    device: str = "cpu",
) -> None:
    """Run the steps from `start` or the untouched base; `out` gets the averaged weights."""
    torch.manual_seed(settings.seed)
    fused = device != "cpu"
    model = load_encoder(start, fused=fused).train().to(device)
    base = load_encoder(start, fused=fused).to(device)
    still = (model.words, model.positions, model.segment, model.norm)
    for part in (*still, *model.layers[: settings.frozen]):
        part.requires_grad_(False)
    moving = [(p, b) for p, b in zip(model.parameters(), base.parameters(), strict=True)
              if p.requires_grad]  # fmt: skip
    average = [p.detach().clone() for p, _ in moving]
    optimiser = torch.optim.AdamW([p for p, _ in moving], lr=settings.rate, weight_decay=0.0)
    began, losses = time.time(), []
    for step, batch in enumerate(batches):
        warm = settings.warmup * settings.steps
        rate = min((step + 1) / warm, (settings.steps - step) / (settings.steps - warm))
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * rate
        asked, offered = embed(model, batch.queries, device), embed(model, batch.documents, device)
        scores = settings.scale * asked @ offered.T
        scores = scores.masked_fill(torch.from_numpy(batch.blocked).to(device), -1e4)
        target = torch.arange(len(asked), device=device)
        loss = F.cross_entropy(scores, target)
        loss = loss + 0.2 * F.cross_entropy(scores[:, : len(asked)].T, target)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p, _ in moving], 1.0)
        optimiser.step()
        keep = min(settings.average, (step + 1) / (step + 10))
        with torch.no_grad():
            for (p, b), a in zip(moving, average, strict=True):
                p.lerp_(b, settings.pull * rate * 0.1)
                a.lerp_(p, 1 - keep)
        losses.append(loss.detach())
        if step % 100 == 99:
            store(model, average, out / "latest.safetensors")
        if step % 50 == 49:
            spent = time.time() - began
            mean = float(torch.stack(losses[-50:]).mean())
            print(f"step {step + 1} loss {mean:.3f} {spent:.0f} s", flush=True)
    store(model, average, out / "model.safetensors")


def store(model: Encoder, average: list[Tensor], path: Path) -> None:
    """Write the averaged weights."""
    copy = Encoder(model.shape).to(average[0].device)
    copy.load_state_dict(model.state_dict())
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    copy.load_state_dict(dict(zip(names, average, strict=True)), strict=False)
    save_state(copy.state_dict(), path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--mined", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--leave-out", nargs="*", default=[], help="fold letters or set names")
    parser.add_argument("--start", type=Path, help="weights to begin with and to be pulled to")
    parser.add_argument("--all-queries", action="store_true", help="train on validation too")
    parser.add_argument("--threads", type=int, default=2, help="1 where others use the machine")
    parser.add_argument("--device", default="cpu", help="cuda: on a GPU")
    parser.add_argument("--processes", type=int, default=0, help="that draw batches ahead")
    for name, default in vars(Settings()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    args = parser.parse_args()
    settings = Settings(**{k: getattr(args, k) for k in vars(Settings())})
    left_out = tuple(n for key in args.leave_out for n in FOLDS.get(key, (key,)))
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "run.json").write_text(json.dumps({"left_out": left_out, **vars(settings)}))
    sources = Sources(args.data, args.mined, left_out, not args.all_queries)
    batches = drawn(sources, settings, args.processes)
    train(batches, settings, args.out, args.start, args.device)


if __name__ == "__main__":
    main()
