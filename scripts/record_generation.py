"""Record what SmolLM2-135M writes with the course's own modules, and keep it as attnlab/data/generation.npz.

The last chapter on the language model fills the student's own `LanguageModel` with the weights of a real model. Where
the model file is missing it shows this recording, and where it is there the recording is what the student's numbers
are compared with. Read it from top to bottom: load, write, time, compare with another implementation, break.

    make model
    python scripts/record_generation.py              # writes the file, some minutes
    python scripts/record_generation.py --verify     # compares it with transformers instead

The model is loaded by `attnlab.smollm2` into `solutions.language_model.LanguageModel`, in float32. The logits that
others are compared with come from `record_attention.py`: another program, which reads the file itself, turns
neighboring pairs, has no cache, and computes in float64.

Speed is processor time on one thread, so that other work on the machine does not count. It is the only number here that
differs on another machine.
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from live import reference_model
from live.sentences import SENTENCE
from scripts import recording
from solutions.kv_cache import KVCache
from solutions.language_model import LanguageModel, generate

TARGET = recording.DATA / "generation.npz"
PROMPTS = [
    "The capital of France is",
    SENTENCE,
    "Once upon a time",
    "The three states of matter are",
]
NEW = 30  # tokens that are written after each prompt
CHOICES = ["The capital of France is", "Once upon a time, there was a", "My favourite colour is"]
KEPT = 200  # most likely tokens that are kept of each choice
TIMED, TIMED_NEW = "Once upon a time", 60
COMPARED = SENTENCE  # its logits are compared with the other program's
EVERY = 128  # the stride over the vocabulary with which compared logits are kept


# 1. Write.


def continuations(model, text) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of each prompt, and those of its greedy continuation."""
    prompts = [text.encode(prompt) for prompt in PROMPTS]
    written = [generate(model, torch.tensor([ids]), NEW)[0, len(ids) :].tolist() for ids in prompts]
    return prompts, written


def choices(model, text) -> dict[str, np.ndarray]:
    """The KEPT largest logits after each of CHOICES, their tokens, and the logarithm of all exponentials' sum."""
    with torch.no_grad():
        rows = torch.stack([model(torch.tensor([text.encode(prompt)]))[0, -1] for prompt in CHOICES])
    best = rows.topk(KEPT)
    return {
        "choice_prompts": np.array(CHOICES),
        "choice_tokens": np.array([[text.decode([i]) for i in row] for row in best.indices.tolist()]),
        "choice_logits": best.values.numpy(),
        "choice_logsumexp": rows.double().logsumexp(-1).numpy(),
    }


# 2. Time.


def seconds_per_token(model, ids: list[int], use_cache: bool) -> list[float]:
    """Processor time of each call of the model while it writes TIMED_NEW tokens."""
    spans = []

    def start(*_):
        spans.append(-time.process_time())

    def stop(*_):
        spans[-1] += time.process_time()

    hooks = [model.register_forward_pre_hook(start), model.register_forward_hook(stop)]
    try:
        generate(model, torch.tensor([ids]), TIMED_NEW, use_cache=use_cache)
    finally:
        for hook in hooks:
            hook.remove()
    return spans


def machine() -> str:
    """Return the kind of processor, which a reader of the times needs to know."""
    name = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = lines[0] if lines else name
    return f"one thread of {name}"


# 3. Break. Each break keeps every shape and every weight, and puts one thing in the wrong place.


class OneTooFar(KVCache):
    """A cache that says it holds one token more than it does, once it holds any."""

    def __len__(self):
        held = super().__len__()
        return held + (held > 0)


def reordered(model, rows) -> LanguageModel:
    """A copy with the rows of W_q and W_k, and the columns of W_o, in another order.

    rows: a function of (projection's name, number of heads, rows (n_heads, d_head, ...)) to the rows as they should be
    """
    twin = LanguageModel(**smollm2.config())
    twin.load_state_dict(model.state_dict())
    for block in twin.blocks:
        a = block.attention
        for name, n_heads in (("W_q", a.n_heads), ("W_k", a.n_kv_heads)):
            weight = getattr(a, name).weight
            weight.data = rows(name, weight.data.unflatten(0, (n_heads, -1))).flatten(0, 1)
        a.W_o.weight.data = rows("W_o", a.W_o.weight.data.T.unflatten(0, (a.n_heads, -1))).flatten(0, 1).T
    return twin.eval().requires_grad_(False)


def as_in_the_file(name, heads):
    """Pairs of neighbors where halves are expected: the order in which the file keeps them."""
    if name == "W_o":
        return heads
    first, second = heads.chunk(2, dim=1)
    return torch.stack([first, second], dim=2).flatten(1, 2)


def dealt_round(name, heads):
    """Query head h meets key/value head h modulo 3 instead of h divided by 3."""
    if name == "W_k":
        return heads
    return heads[[h for g in range(3) for h in range(g, 9, 3)]]


def breaks(model) -> dict:
    """Name of each break -> (model, kind of cache)."""
    slow = LanguageModel(**smollm2.config() | {"base": 10_000.0})
    slow.load_state_dict(model.state_dict())
    return {
        "one position too far": (model, OneTooFar),
        "base 10,000": (slow.eval().requires_grad_(False), KVCache),
        "pairs of neighbors": (reordered(model, as_in_the_file), KVCache),
        "heads dealt round": (reordered(model, dealt_round), KVCache),
    }


def read(model, ids: list[int], n: int, kind=KVCache) -> torch.Tensor:
    """Logits (len(ids), vocab_size): the first n ids in one piece, the rest one by one."""
    caches = [kind() for _ in model.blocks]
    pieces = [ids[:n], *([i] for i in ids[n:])]
    with torch.no_grad():
        return torch.cat([model(torch.tensor([piece]), caches)[0] for piece in pieces])


def write(model, ids: list[int], kind) -> list[int]:
    """The greedy continuation with another kind of cache than the course's, which `generate` would use."""
    caches, written, unread = [kind() for _ in model.blocks], [], ids
    with torch.no_grad():
        for _ in range(NEW):
            unread = [int(model(torch.tensor([unread]), caches)[0, -1].argmax())]
            written += unread
    return written


def broken(model, prompts, written) -> dict[str, np.ndarray]:
    """Measure the effect of each break on the logits of prompts and continuations, and on greedy text.

    broken_difference (breaks, prompts, NEW): the largest change of a logit at each position from the prompt's last on
    broken_kl (breaks, prompts, NEW): Kullback-Leibler divergence from the whole model's probabilities, in nats
    broken_first (breaks, len): the largest change at each position of the first prompt and its continuation
    broken_ids (breaks, prompts, NEW): what it writes
    """
    texts = [prompt + new for prompt, new in zip(prompts, written)]
    whole = [read(model, text, len(prompt)) for text, prompt in zip(texts, prompts)]
    made = {"broken_names": [], "broken_difference": [], "broken_kl": [], "broken_first": [], "broken_ids": []}
    for name, (twin, kind) in breaks(model).items():
        rows = [read(twin, text, len(prompt), kind) for text, prompt in zip(texts, prompts)]
        changes = [(a - b).abs().amax(-1) for a, b in zip(rows, whole)]
        logs = [(b.log_softmax(-1), a.log_softmax(-1)) for a, b in zip(rows, whole)]
        kl = [(right.exp() * (right - wrong)).sum(-1) for right, wrong in logs]
        made["broken_names"].append(name)
        made["broken_difference"].append([c[len(p) - 1 : -1].tolist() for c, p in zip(changes, prompts)])
        made["broken_kl"].append([c[len(p) - 1 : -1].tolist() for c, p in zip(kl, prompts)])
        made["broken_first"].append(changes[0].tolist())
        made["broken_ids"].append([write(twin, prompt, kind) for prompt in prompts])
        print(name, [round(max(row), 2) for row in made["broken_difference"][-1]], flush=True)
    return {
        name: np.array(value, dtype=None if name in ("broken_names", "broken_ids") else np.float32)
        for name, value in made.items()
    }


# 4. Compare.


def compared(model, text) -> dict[str, np.ndarray]:
    """Every EVERY-th of the other program's logits of COMPARED, and the largest difference from the course's."""
    reader = smollm2.reader()
    ids = text.encode(COMPARED)
    theirs, _, _ = reference_model.forward(
        ids, reference_model.weight_reader(reader), reference_model.read_shape(reader)
    )
    with torch.no_grad():
        ours = model(torch.tensor([ids]))[0].double()
    return {
        "compared_ids": np.array(ids),
        "compared_logits": theirs[:, ::EVERY].numpy().astype(np.float32),
        "compared_largest": np.array((ours - theirs).abs().max().item()),
        "compared_spread": np.array(theirs.std().item()),
    }


def provenance() -> str:
    """Where the numbers come from, as JSON."""
    from importlib.metadata import version

    return recording.provenance(
        __file__,
        precision="computed in float32 (compared_logits in float64), kept in float32",
        speed=f"processor time, {machine()}",
        gguf=version("gguf"),
        tokenizers=version("tokenizers"),
    )


def record(target: Path) -> None:
    """Run everything and write the file."""
    torch.set_num_threads(1)
    model, text = smollm2.load(LanguageModel), smollm2.tokenizer()
    prompts, written = continuations(model, text)
    for prompt, ids in zip(PROMPTS, written):
        print(prompt, "|", text.decode(ids), flush=True)
    timed = text.encode(TIMED)
    arrays = {
        "prompts": np.array(PROMPTS),
        "prompt_lengths": np.array([len(ids) for ids in prompts]),
        "ids": np.array(written),
        "texts": np.array([text.decode(ids) for ids in written]),
        "timed_prompt": np.array(TIMED),
        "seconds_with": np.array(seconds_per_token(model, timed, True)),
        "seconds_without": np.array(seconds_per_token(model, timed, False)),
        **choices(model, text),
        **compared(model, text),
        **broken(model, prompts, written),
    }
    arrays["broken_texts"] = np.array([[text.decode(ids) for ids in rows] for rows in arrays["broken_ids"].tolist()])
    np.savez_compressed(target, provenance=np.array(provenance()), **arrays)
    print(f"{target.stat().st_size} bytes; the two programs differ by {arrays['compared_largest']:.1e}")


# 5. Check it against an independent implementation of the model.


def verify(target: Path) -> None:
    """Compare texts and logits with what `transformers` makes of the same model file."""
    tokenizer, model = recording.from_transformers()
    with np.load(target, allow_pickle=False) as recorded:
        texts, written, logits = recorded["texts"].tolist(), recorded["ids"].tolist(), recorded["compared_logits"]
    for prompt, text, new in zip(PROMPTS, texts, written):
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        whole = torch.cat([ids, torch.tensor([new])], dim=1)
        with torch.no_grad():
            theirs = model(whole).logits[0, ids.shape[1] - 1 : -1].argmax(-1)
        if theirs.tolist() != new or tokenizer.decode(new) != text:
            sys.exit(f"transformers continues {prompt!r} differently: {tokenizer.decode(theirs)!r}")
    ids = tokenizer(COMPARED, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        largest = np.abs(model(ids).logits[0, :, ::EVERY].numpy() - logits).max()
    print(f"same text after {len(PROMPTS)} prompts; largest difference of a logit: {largest:.1e}")
    if largest > 1e-2:
        sys.exit("the recording does not agree with transformers")


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Record what SmolLM2-135M writes with the course's modules.", TARGET)
    return verify(options.output) if options.verify else record(options.output)


if __name__ == "__main__":
    main()
