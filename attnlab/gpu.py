"""Naive against fused attention, and decoding with and without a cache, measured on a GPU.

    from attnlab import gpu
    found = gpu.machine("cuda")
    found["attention"] = gpu.attention_costs("cuda")
    print(gpu.say_attention(found))

The chapter's cells with the tag `gpu` call these functions where there is a GPU. A time is the median of several runs,
after one that is not counted. Memory is the most that was allocated while the operation ran, without its inputs: as
PyTorch's allocator reports it on CUDA, and as `attnlab.checking.meter` counts it on a CPU.
"""

from __future__ import annotations

import platform
import statistics
import time

import torch
import torch.nn.functional as F

from attnlab.checking.meter import Meter

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
HEADS, WIDTH = 16, 64
PROMPT, NEW = 512, 128  # tokens that are read before the decoding, and tokens that are written


def naive(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Attention as the formula has it, with every matrix in memory; Q, K, V (batch, heads, n, width)."""
    compared = torch.matmul(Q * Q.shape[-1] ** -0.5, K.mT)
    return torch.matmul(F.softmax(compared, dim=-1), V)


def fused(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """PyTorch's own attention, one operation."""
    return F.scaled_dot_product_attention(Q, K, V)


def machine(device: str) -> dict:
    """Return the device and the versions, which a reader of the numbers needs to know."""
    is_cuda = torch.device(device).type == "cuda"
    info = torch.cuda.get_device_properties(device) if is_cuda else None
    return {
        "device": info.name if is_cuda else "CPU",
        "device_bytes": info.total_memory if is_cuda else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if is_cuda else None,
    }


def attention_costs(
    device: str, lengths=LENGTHS, heads: int = HEADS, width: int = WIDTH, repeats: int = 5
) -> list[dict]:
    """One row for each length: n, milliseconds and bytes of naive and fused attention, all heads of one text together.

    Numbers are bfloat16 on CUDA and float32 on a CPU. Where there is not enough memory, both entries are None.
    """
    dtype = torch.bfloat16 if torch.device(device).type == "cuda" else torch.float32
    rows = []
    for n in lengths:
        generator = torch.Generator().manual_seed(n)
        given = [torch.randn(1, heads, n, width, generator=generator).to(device, dtype) for _ in range(3)]
        row = {"n": n}
        for name, attend in (("naive", naive), ("fused", fused)):
            try:
                row[f"{name}_ms"], row[f"{name}_bytes"] = cost(lambda: attend(*given), device, repeats)
            except torch.OutOfMemoryError:
                row[f"{name}_ms"] = row[f"{name}_bytes"] = None
        rows.append(row)
    return rows


def decoding_costs(model, generate, device: str, prompt: int = PROMPT, new: int = NEW, repeats: int = 3) -> dict:
    """Milliseconds for each new token with and without a cache, and whether both wrote the same.

    model, generate: a LanguageModel with its weights, and a function as in the chapter on language models. The prompt
    is the ids 100, 101, ...; its content makes no difference to the time.
    """
    model = model.to(device)
    ids = (torch.arange(prompt) % (model.embedding.weight.shape[0] - 100) + 100)[None].to(device)
    found = {"prompt": prompt, "new": new}
    texts = {}
    for name, use_cache in (("with_cache", True), ("without_cache", False)):

        def write(use_cache=use_cache, name=name):
            texts[name] = generate(model, ids, new, use_cache=use_cache)

        milliseconds, _ = cost(write, device, repeats)
        found[f"{name}_ms"] = milliseconds / new
    return found | {"same_text": bool(torch.equal(*texts.values()))}


def cost(run, device: str, repeats: int) -> tuple[float, int]:
    """Milliseconds and bytes of `run()`."""
    spans = []
    with torch.no_grad():
        if torch.device(device).type != "cuda":
            with Meter() as meter:
                run()
            for _ in range(repeats):
                begin = time.perf_counter()
                run()
                spans.append(1000 * (time.perf_counter() - begin))
            return statistics.median(spans), meter.bytes
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        most = torch.cuda.max_memory_allocated(device) - before
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            spans.append(begin.elapsed_time(end))
    return statistics.median(spans), most


def say_attention(found: dict) -> str:
    """The rows of `attention` as a table of ratios."""
    lines = [_of(found), "naive over fused:", "     n      time    memory"]
    for row in found["attention"]:
        if row["naive_ms"] is None:
            lines.append(f"{row['n']:6}  naive does not fit")
        else:
            memory = row["naive_bytes"] / max(1, row["fused_bytes"])
            lines.append(f"{row['n']:6}{row['naive_ms'] / row['fused_ms']:9.1f}x{memory:9.1f}x")
    return "\n".join(lines)


def say_decoding(found: dict) -> str:
    """Print the results of `decoding` in a few lines."""
    decoding = found["decoding"]
    ratio = decoding["without_cache_ms"] / decoding["with_cache_ms"]
    return "\n".join(
        [
            _of(found),
            f"{decoding['prompt']} tokens read, {decoding['new']} written",
            f"  with a cache  {1000 / decoding['with_cache_ms']:8.1f} tokens a second",
            f"  without       {1000 / decoding['without_cache_ms']:8.1f}",
            f"  ratio         {ratio:8.1f}",
            f"  same text     {'yes' if decoding['same_text'] else 'no (close logits, rounded)'}",
        ]
    )


def _of(found: dict) -> str:
    where = "recorded on" if "recorded" in found else "measured here"
    return f"{where}: {found['device']}\n  torch {found['torch']}, CUDA {found['cuda']}"


def draw(found: dict):
    """A figure: time and memory of naive and fused attention over the length, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3), layout="constrained")
    for axis, unit, label in zip(figure.subplots(1, 2), ("ms", "bytes"), ("milliseconds", "bytes")):
        for name, style in (("naive", "o--"), ("fused", "s-")):
            rows = [row for row in found["attention"] if row[f"{name}_{unit}"]]
            axis.plot([row["n"] for row in rows], [row[f"{name}_{unit}"] for row in rows], style, label=name)
        axis.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
        axis.legend(fontsize=8)
    figure.suptitle(found["device"], fontsize=9)
    return figure
