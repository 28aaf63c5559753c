"""Record what Gemma 3 270M writes on the course's own parts, and keep it as attnlab/data/gemma.npz.

The chapter on today's models wires Gemma 3 from the student's parts. Where the model file is missing it shows this
recording. Read it from top to bottom: wire, compare with another implementation, write, break.

    make gemma
    python scripts/record_gemma.py              # writes the file, in some minutes and 1.8 GB
    python scripts/record_gemma.py --verify     # compares the recorded ids with `transformers` instead

The model is wired by the chapter's own cells, with the references as the student's parts. `transformers` gets the same
dequantized numbers, so that the two differ in rounding only. Both compute in float32. No weight of the model is kept,
and of its logits only differences.

Speed is processor time on one thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import ast
import dataclasses
import gc
import importlib
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import gemma
from attnlab.mine import PROVIDED
from course import chapter
from scripts import recording

TARGET = recording.DATA / "gemma.npz"
NEW = 16  # ids that are written after each prompt
LAST = 64  # tokens at the end of a prompt whose logits are compared: all of a short one
N_LAYERS = 18
AGREES = 1e-3  # in logits, which go up to about 30
PEOPLE = """Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karla Leo Mia Noah Olga Paul Quinn Rosa Simon Tina Uwe
Vera Wim Xenia Yusuf Zoe Alice Bruno Carla Diego Elena Frank Gina Henry Iris Jack Kira Liam Mona Nils Oscar Petra"""
CITIES = """Athens Lisbon Rome Berlin Oslo Cairo Lima Delhi Tokyo Sydney Madrid Vienna Dublin Prague Warsaw Boston
Chicago Toronto Moscow Paris"""
# So long that its first line, which holds the answer, is outside of every window when the last line is read.
SAID = "{} was born in {} and has lived there for many years."
LINES = [SAID.format(*pair) for pair in zip(PEOPLE.split(), itertools.cycle(CITIES.split()))]
LONG = "\n".join([*LINES, "Anna was born in"])
PROMPTS = [
    "The opposite of hot is",
    "The capital of France is",
    "Once upon a time, there was a little",
    "The three primary colors are",
    "Water boils at a temperature of",
    "1, 2, 3, 4, 5,",
    "def fibonacci(n):\n    ",
    "Der Himmel ist blau, und",
    "日本の首都は",
    LONG,
]


# 1. Wire: the cells of the page.


def wired(*edits: tuple[str, str], parts: dict | None = None) -> dict:
    """Run the definitions in the page's cells, and return them.

    edits: texts of the cells, and what replaces each; parts: parts in place of the references, by name
    """
    layers = {"layer_types": [None] * N_LAYERS}  # the page takes their number from the recording
    space = {"torch": torch, "nn": nn, "F": F, "sys": sys, "recorded": SimpleNamespace(config=layers)}
    os.environ.setdefault(PROVIDED, "solutions")
    mine = importlib.import_module("attnlab.mine")
    page = "\n".join(cell.source for cell in chapter.read("todays_models").notebook.cells if cell.cell_type == "code")
    for old, new in edits:
        if old not in page:
            raise ValueError(f"the page does not contain {old!r}")
        page = page.replace(old, new)
    tree = ast.parse(page)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "attnlab.mine":
            space |= {name.name: getattr(mine, name.name) for name in node.names} | (parts or {})
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef) or _constant(node)]
    exec(compile(ast.Module(kept, []), "todays_models", "exec"), space)
    return space


def _constant(node: ast.stmt) -> bool:
    """Whether it is a tuple of norms, which has a name in capitals."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
    )


# What is wrong, and how: a text of the page's cells and what replaces it, or settings.
def base_of(local: float, whole: float) -> Callable[[dict], dict]:
    """Other bases: in layers with a window, and in the others."""
    kinds = {"sliding_attention": local, "full_attention": whole}
    return lambda config: {"rope_parameters": {kind: {"rope_theta": base} for kind, base in kinds.items()}}


ONE_WIRING = ")\n        blocks.append(block_of(layer, config, attention, geglu"  # that of Gemma, and of no other model
MISTAKES: dict[str, tuple[tuple, Callable[[dict], dict]]] = {
    "window one token too long": ((), lambda config: {"sliding_window": config["sliding_window"] + 1}),
    "windows in all layers": (((f" if windowed else None{ONE_WIRING}", ONE_WIRING),), lambda config: {}),
    "one base, 1,000,000": ((), base_of(1e6, 1e6)),
    "bases exchanged": ((), base_of(1e6, 1e4)),
    "norms without their 1": ((("tensor + 1.0 if", "tensor if"), ("one_plus=1.0", "one_plus=0.0")), lambda config: {}),
}


def model_of(real: gemma.Published, mistake: str | None = None) -> tuple[dict, Callable]:
    """Return the definitions of the page's cells, and the model that they make."""
    edits, changed = MISTAKES[mistake] if mistake else ((), lambda config: {})
    space = wired(*edits)
    return space, space["gemma3"](dataclasses.replace(real, config=real.config | changed(real.config)))


@torch.no_grad()
def last_logits(space: dict, model: Callable, ids: list[int], at_once: int = 32) -> torch.Tensor:
    """Logits of the last tokens, LAST at most, read in chunks with caches: (LAST, vocab_size)."""
    caches = [space["KVCache"]() for _ in range(N_LAYERS)]
    first, found = max(0, len(ids) - LAST), []
    for part in torch.tensor([ids[:first]]).split(at_once, dim=1) if first else ():
        model(part, caches)
    for part in torch.tensor([ids[first:]]).split(at_once, dim=1):
        found.append(model(part, caches)[0])
    return torch.cat(found)


# 2. Another implementation.


def from_transformers(real: gemma.Published):
    """The model that `transformers` makes of the same numbers, which are in memory once."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    weights = {name: real.weights[name] for name in real.weights}
    config = Gemma3TextConfig(**real.config)
    return Gemma3ForCausalLM.from_pretrained(None, config=config, state_dict=weights, dtype=torch.float32).eval()


@torch.no_grad()
def their_logits(theirs, ids: list[int]) -> torch.Tensor:
    """Logits of the last tokens in one pass, without a cache: (LAST at most, vocab_size)."""
    return theirs(torch.tensor([ids]), use_cache=False, logits_to_keep=LAST).logits[0]


# 3. Write, break, record.


def start(space: dict, model: Callable, ids: list[int], n: int = NEW) -> list[int]:
    """The ids that the page's loop writes after a prompt."""
    return list(space["continued"](model, ids, n))


def broken(real: gemma.Published, text: gemma.Tokenizer, right: list[torch.Tensor]) -> dict[str, np.ndarray]:
    """Each mistake's texts after the first prompt and the last, and by how much it changes their logits, at most."""
    prompts = [text.encode(PROMPTS[0]), text.encode(PROMPTS[-1])]
    differences, texts = [], []
    for mistake in MISTAKES:
        space, model = model_of(real, mistake)
        found = [last_logits(space, model, ids) for ids in prompts]
        differences.append([(a - b).abs().max().item() for a, b in zip(found, right)])
        texts.append([text.decode(start(space, model, ids)) for ids in prompts])
        print(mistake, differences[-1], texts[-1], flush=True)
        del model, found, space
        gc.collect()
    return {
        "mistakes": np.array(list(MISTAKES)),
        "mistake_differences": np.array(differences),
        "mistake_texts": np.array(texts),
    }


def ours(real: gemma.Published, text: gemma.Tokenizer) -> tuple[list[torch.Tensor], dict]:
    """The last logits of each prompt, and what is recorded of the model without a mistake."""
    space, model = model_of(real)
    prompts = [text.encode(prompt) for prompt in PROMPTS]
    begin = time.process_time()
    written = [start(space, model, ids) for ids in prompts[:-1]]
    speed = NEW * len(written) / (time.process_time() - begin)
    memory = gemma.resident()  # before anything else is loaded
    written.append(start(space, model, prompts[-1]))
    parts = [space[name] for name in ("QKNormAttention", "rms_norm", "gelu_tanh", "soft_cap", "KVCache")]
    calls = space["calls_of"](parts, lambda: start(space, model, prompts[0], 1))
    for prompt, ids in zip(PROMPTS, written):
        print(prompt[-40:], "|", text.decode(ids), flush=True)
    return [last_logits(space, model, ids) for ids in prompts], {
        "lengths": np.array([len(ids) for ids in prompts]),
        "ids": np.array(written),
        "texts": np.array([text.decode(ids) for ids in written]),
        "tokens_per_second": np.array(speed),
        "memory": np.array(memory),
        "parts": np.array(list(calls)),
        "calls": np.array(list(calls.values())),
    }


def record(target: Path) -> None:
    text, real = gemma.tokenizer(), gemma.load()
    found, arrays = ours(real, text)
    gc.collect()
    theirs = from_transformers(real)
    expected = [their_logits(theirs, text.encode(prompt)) for prompt in PROMPTS]
    del theirs
    gc.collect()
    differences = np.array([(a - b).abs().max().item() for a, b in zip(found, expected)])
    largest = max(logits.abs().max().item() for logits in expected)
    print(f"largest difference of each prompt: {differences}", flush=True)
    del expected
    right = [found[0], found[-1]]
    del found
    np.savez_compressed(
        target,
        provenance=np.array(provenance()),
        config=np.array(json.dumps(real.config)),
        n_numbers=np.array(real.weights.total),
        prompts=np.array(PROMPTS),
        differences=differences,
        largest=np.array(largest),
        **arrays,
        **broken(real, text, right),
    )
    speed, memory = arrays["tokens_per_second"], arrays["memory"]
    print(f"{target.stat().st_size} bytes; {speed:.1f} tokens per second, {memory / 1e9:.2f} GB")


def provenance() -> str:
    import transformers

    return recording.provenance(
        __file__,
        of=gemma,
        precision="float32",
        transformers=transformers.__version__,
        speed=f"processor time, one thread, {platform.machine()}",
    )


def verify(target: Path) -> None:
    """Would `transformers` choose each recorded id too, and are the prompts' ids those of its tokenizer's rules?"""
    text, theirs = gemma.tokenizer(), from_transformers(gemma.load())
    with np.load(target, allow_pickle=False) as kept:
        prompts, written = kept["prompts"].tolist(), kept["ids"].tolist()
    for prompt, new in zip(prompts, written):
        logits = their_logits(theirs, [*text.encode(prompt), *new])[-NEW - 1 : -1]
        behind = (logits.max(-1).values - logits[torch.arange(NEW), torch.tensor(new)]).max().item()
        if behind > AGREES:
            sys.exit(f"transformers continues {prompt[-40:]!r} differently: a likelier token is {behind:.3f} ahead")
    print(f"the same ids after {len(prompts)} prompts")


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Record what Gemma 3 270M writes on the course's parts.", TARGET, of=gemma)
    torch.set_num_threads(1)
    return verify(options.output) if options.verify else record(options.output)


if __name__ == "__main__":
    main()
