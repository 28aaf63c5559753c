"""Measure and rank the heads of SmolLM2-135M, take heads out, and keep what happens as attnlab/data/heads.npz.

The course says of some heads what they look at. No head is picked by eye: every head gets a number for every pattern,
by a definition in this file, and then the heads are sorted. After that each head is taken out in turn, to
see what the model says without it.

    make model
    python scripts/record_heads.py              # writes the file
    python scripts/record_heads.py --verify     # compares it with an independent implementation instead

The model, its file and the code that runs it are those of record_attention.py. Everything is computed in float64.

Sources: Elhage et al. 2021 (A Mathematical Framework for Transformer Circuits) and Olsson et al. 2022 (In-context
Learning and Induction Heads, arXiv:2209.11895) for induction heads and the repeated random tokens that find them; Xiao
et al. 2023 (arXiv:2309.17453) for the first token as a sink; Michel et al. 2019 (arXiv:1905.10650) for heads taken out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from live import reference_model as model
from live.reference_model import Shape, mean_outputs
from live.sentences import SENTENCE, SENTENCES
from scripts import recording
from scripts.record_attention import tokens_of

TARGET = recording.DATA / "heads.npz"

# The text whose attention weights are kept. Those of the sentence alone are already in seven_tokens.npz.
TWICE = f"{SENTENCE}. {SENTENCE}"

# Random tokens, repeated: without grammar and meaning, a head can find the earlier place only by the repetition.
SEED = 20
N_SEQUENCES, HALF = 8, 25
FIRST_ORDINARY_ID = 17  # the ids below are control tokens

# What is read while heads are taken out, and the token that each prompt is about.
PROMPTS = [
    ("The capital of France is", " Paris"),
    (SENTENCE, ","),
    (f"{SENTENCE}. The CEO announced", " record"),
    (f"{SENTENCE}. The CEO announced record earnings on", " Friday"),
    ("The CEO announced", " record"),
]
N_TOP = 8
GROUP_SIZE, N_RANDOM = 5, 20


# 1. Patterns. A measure is the mean attention weight over a list of (query, key) pairs of positions in a text.


def previous(ids: list[int]) -> list[tuple[int, int]]:
    """Every token and the one before it, from position 2 on: the token before position 1 is also the first one."""
    return [(i, i - 1) for i in range(2, len(ids))]


def first(ids: list[int]) -> list[tuple[int, int]]:
    """Every token from position 4 on, and the first token: far enough that no head gets there by looking nearby."""
    return [(i, 0) for i in range(4, len(ids))]


def itself(ids: list[int]) -> list[tuple[int, int]]:
    """Every token and itself, from position 1 on: the first token has nothing else to look at."""
    return [(i, i) for i in range(1, len(ids))]


def duplicate(ids: list[int]) -> list[tuple[int, int]]:
    """Every token that was there before, and its latest earlier occurrence."""
    latest, pairs = {}, []
    for i, token in enumerate(ids):
        if token in latest:
            pairs.append((i, latest[token]))
        latest[token] = i
    return pairs


def induction(ids: list[int]) -> list[tuple[int, int]]:
    """Every token that was there before, and the token that came next after its latest earlier occurrence."""
    return [(i, j + 1) for i, j in duplicate(ids) if j + 1 < i]


def mean_weight(weights: torch.Tensor, pairs: list[tuple[int, int]]) -> torch.Tensor:
    """The mean of weights (..., h, n, n) over pairs (query, key): (..., h)."""
    queries, keys = map(list, zip(*pairs))
    return weights[..., queries, keys].mean(-1)


def random_twice(vocabulary: int) -> list[list[int]]:
    """N_SEQUENCES lists of HALF different random token ids, each list repeated once."""
    rng = np.random.default_rng(SEED)
    halves = [rng.choice(np.arange(FIRST_ORDINARY_ID, vocabulary), HALF, replace=False) for _ in range(N_SEQUENCES)]
    return [half.tolist() * 2 for half in halves]


# Which pattern is measured over which texts.
MEASURES = {
    "previous": (previous, "sentences"),
    "first": (first, "sentences"),
    "self": (itself, "sentences"),
    "induction": (induction, "random"),
    "duplicate": (duplicate, "random"),
    "induction_phrase": (induction, "twice"),
}


def measure(texts: dict[str, list[list[int]]], run: Callable) -> dict[str, torch.Tensor]:
    """Every measure on every text that it is taken over: name -> (texts, layers, h).

    texts: name of a collection -> the ids of its texts; run: ids -> attention weights (layers, h, n, n)
    """
    found = {name: [] for name in MEASURES}
    for collection, members in texts.items():
        for ids in members:
            weights = run(ids)
            for name, (pattern, over) in MEASURES.items():
                if over == collection:
                    found[name].append(mean_weight(weights, pattern(ids)))
    return {name: torch.stack(values) for name, values in found.items()}


def ranked(measure: torch.Tensor) -> list[tuple[int, int]]:
    """All heads as (layer, head), the largest value of measure (layers, h) first; equal ones in the model's order."""
    order = measure.flatten().argsort(descending=True, stable=True)
    return [divmod(int(i), measure.shape[1]) for i in order]


# 2. Taking heads out. A head that is out gives zeros to W_O; or, for comparison, always the same vector.


def keep_all_but(removed: list[tuple[int, int]], shape: Shape) -> torch.Tensor:
    """(layers, h) bool: False for the removed heads."""
    keep = torch.ones(shape.n_layers, shape.n_heads, dtype=torch.bool)
    for layer, head in removed:
        keep[layer, head] = False
    return keep


def without(
    ids: list[int],
    keep: torch.Tensor,
    weight: Callable,
    shape: Shape,
    fill: torch.Tensor | None = None,
    pairs: list[tuple[int, int]] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the model with some heads taken out: logits (variants, vocabulary) at the last position, and mean weights.

    keep: (variants, layers, h) bool, False where a head is out
    fill: (layers, h, d) what a head that is out gives at every position; zeros by default
    pairs: (query, key) positions; the second result is the mean weight over them, (variants, layers, h). By default
        the last token's weight on itself.

    A variant is the whole model up to the first layer that it changes, so it joins the batch only there.
    """
    pairs = pairs or [(len(ids) - 1, len(ids) - 1)]
    changes = ~keep.all(-1)
    joins = torch.where(changes.any(-1), changes.int().argmax(-1), shape.n_layers)  # (variants,) the first such layer
    order = joins.argsort(stable=True)
    measured = []
    x = weight("token_embd")[ids][None]  # entry 0 of the batch stays the whole model
    for layer in range(shape.n_layers):
        x = torch.cat([x, x[:1].expand(int((joins == layer).sum()), -1, -1)])
        here = torch.ones(len(x), shape.n_heads, dtype=torch.bool)
        here[1:] = keep[order[: len(x) - 1], layer]
        instead = torch.zeros((), dtype=x.dtype) if fill is None else fill[layer][:, None, :]
        x, weights, _ = model.block(
            x, weight, layer, shape, lambda out: torch.where(here[:, :, None, None], out, instead)
        )
        measured.append(_with_latecomers(mean_weight(weights, pairs), len(keep)))
    logits = _with_latecomers(model.read_out(x[:, -1], weight, shape), len(keep))
    back = order.argsort()
    return logits[back], torch.stack(measured, dim=1)[back]


def _with_latecomers(found: torch.Tensor, n_variants: int) -> torch.Tensor:
    """Entries 1, 2, ... of found, and entry 0, the whole model, for each variant that has not yet joined."""
    return torch.cat([found[1:], found[:1].expand(n_variants + 1 - len(found), *found.shape[1:])])


def every_head_alone(shape: Shape) -> list[list[tuple[int, int]]]:
    """Return one list per head of the model, with that head alone, in the model's order."""
    return [[(layer, head)] for layer in range(shape.n_layers) for head in range(shape.n_heads)]


def divergence(whole: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(whole || other) in nats between next-token distributions, from logits (vocabulary,) and (..., vocabulary)."""
    p, q = whole.log_softmax(-1), other.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).clamp(min=0)  # rounding could leave a -1e-17


def groups_of_heads(measures: dict[str, torch.Tensor]) -> dict[str, list[tuple[int, int]]]:
    """Sets of GROUP_SIZE heads to take out together: the strongest by a measure, and random ones to compare with."""
    groups = {name: ranked(measures[name])[:GROUP_SIZE] for name in ("induction", "previous", "first", "self")}
    named = set().union(*groups.values())
    rng = np.random.default_rng(SEED)
    n_layers, n_heads = measures["previous"].shape
    others = [(layer, head) for layer in range(n_layers) for head in range(n_heads) if (layer, head) not in named]
    for number in range(1, N_RANDOM + 1):
        chosen = rng.choice(len(others), GROUP_SIZE, replace=False)
        groups[f"random {number}"] = sorted(others[i] for i in chosen)
    # Heads of a few layers may matter more than heads anywhere. These are as deep as the induction heads.
    for number in range(1, N_RANDOM + 1):
        chosen = []
        for layer, _ in groups["induction"]:
            free = [head for head in others if head[0] == layer and head not in chosen]
            chosen.append(free[rng.integers(len(free))])
        groups[f"same layers {number}"] = sorted(chosen)
    return groups


def next_token(tokenizer, i: int) -> str:
    """A token as a reader would write it: without the space in front, and white space by its name."""
    text = tokenizer.decode([i])
    return text.strip() or {" ": "(space)", "\n": "(newline)"}.get(text, repr(text))


@dataclass(frozen=True)
class Model:
    """The model, ready to run: its tokenizer, a function from a tensor's name to its values, and its shape."""

    tokenizer: object
    weight: Callable[[str], torch.Tensor]
    shape: Shape

    @classmethod
    def read(cls) -> Model:
        reader = smollm2.reader()
        weight = functools.cache(model.weight_reader(reader))  # every run needs them all; about 1 GB
        return cls(smollm2.tokenizer(), weight, model.read_shape(reader))

    def ids(self, text: str) -> list[int]:
        return tokens_of(self.tokenizer, text)[0]

    def tokens(self, text: str) -> list[str]:
        return tokens_of(self.tokenizer, text)[1]

    def attention(self, ids: list[int]) -> torch.Tensor:
        """The attention weights (layers, h, n, n) on token ids."""
        return model.forward(ids, self.weight, self.shape)[1]


# 3. Everything that is kept, as named arrays.


def measure_heads(lm: Model) -> dict[str, torch.Tensor]:
    """Every measure of MEASURES on each of its texts: name -> (texts, layers, h)."""
    vocabulary = len(lm.weight("token_embd"))
    texts = {
        "sentences": [lm.ids(sentence) for sentence in SENTENCES],
        "random": random_twice(vocabulary),
        "twice": [lm.ids(TWICE)],
    }
    return measure(texts, lm.attention)


def take_out(lm: Model, groups: dict[str, list[tuple[int, int]]]) -> dict[str, np.ndarray]:
    """Return the next tokens without each head, and without each group of heads. Arrays are named as in the file."""
    shape = lm.shape
    each = every_head_alone(shape)
    keep = torch.stack([keep_all_but(removed, shape) for removed in [[], *each, *groups.values()]])
    usual = mean_outputs([lm.ids(sentence) for sentence in SENTENCES], lm.weight, shape)
    found = {name: [] for name in ("top", "probabilities", "answer_probabilities", "kl", "kl_mean")}
    for prompt, answer in PROMPTS:
        ids, (answer_id,) = lm.ids(prompt), lm.ids(answer)
        logits, _ = without(ids, keep, lm.weight, shape)
        probabilities = logits.softmax(-1)
        top = probabilities[0].topk(N_TOP).indices
        found["top"].append([next_token(lm.tokenizer, int(i)) for i in top])
        found["probabilities"].append(probabilities[:, top])
        found["answer_probabilities"].append(probabilities[:, answer_id])
        found["kl"].append(divergence(logits[0], logits))
        logits, _ = without(ids, keep, lm.weight, shape, usual)
        found["kl_mean"].append(divergence(logits[0], logits))

    # The variants are: the whole model, each head in turn, each group.
    arrays = {"top": np.array(found.pop("top"))}
    for name, values in found.items():
        values = torch.stack(values).numpy().astype(np.float32)
        single = values[:, 1 : 1 + len(each)]
        arrays[f"whole_{name}"] = values[:, 0]
        arrays[f"head_{name}"] = single.reshape(len(PROMPTS), shape.n_layers, shape.n_heads, *single.shape[2:])
        arrays[f"group_{name}"] = values[:, 1 + len(each) :].swapaxes(0, 1)
    return arrays


def break_induction(lm: Model, heads: list[tuple[int, int]]) -> dict[str, np.ndarray]:
    """How much of the "induction" weight of some heads is left with each head of the model taken out.

    Measured on the first of the random sequences. A head cannot change what an earlier layer, or its own, looks at.
    """
    ids = random_twice(len(lm.weight("token_embd")))[0]
    keep = torch.stack([keep_all_but(removed, lm.shape) for removed in [[], *every_head_alone(lm.shape)]])
    _, looks = without(ids, keep, lm.weight, lm.shape, pairs=induction(ids))
    layers, numbers = map(list, zip(*heads))
    looks = looks[:, layers, numbers].T.numpy().astype(np.float32)
    return {
        "whole_induction": looks[:, 0],
        "head_induction": looks[:, 1:].reshape(len(heads), lm.shape.n_layers, lm.shape.n_heads),
    }


def provenance() -> str:
    """Where the numbers come from, as JSON."""
    return recording.provenance(
        __file__,
        precision="computed in float64; weights kept in float16, the rest in float32",
        sentences=SENTENCES,
        random=f"{N_SEQUENCES} sequences of {HALF} different random tokens said twice, seed {SEED}",
        measures={name: " ".join(pattern.__doc__.split()) for name, (pattern, _) in MEASURES.items()},
        over={name: over for name, (_, over) in MEASURES.items()},
        ablation="a head that is out gives zeros to W_O at every position; kl_mean: its mean output over the "
        "sentences instead",
        groups=f"the {GROUP_SIZE} strongest by a measure; random: {GROUP_SIZE} heads in none of those groups, seed "
        f"{SEED}; same layers: such heads, one for each induction head and in its layer",
    )


def record(lm: Model) -> dict[str, np.ndarray]:
    """All arrays of the file. attnlab/data/__init__.py says what they mean."""
    by_text = measure_heads(lm)
    groups = groups_of_heads({name: values.mean(0) for name, values in by_text.items()})
    return {
        "text": np.array(TWICE),
        "tokens": np.array(lm.tokens(TWICE)),
        "weights": lm.attention(lm.ids(TWICE)).numpy().astype(np.float16),
        **{f"measure_{name}": values.numpy().astype(np.float32) for name, values in by_text.items()},
        "prompts": np.array([prompt for prompt, _ in PROMPTS]),
        "answers": np.array([answer.strip() for _, answer in PROMPTS]),
        **take_out(lm, groups),
        **break_induction(lm, groups["induction"]),
        "group_names": np.array(list(groups)),
        "group_heads": np.array(list(groups.values()), dtype=np.int64),
        "provenance": np.array(provenance()),
    }


# 4. Check it against an independent implementation of the model.


def verify(target: Path) -> None:
    """Compare weights and a few ablations with what `transformers` makes of the same model file."""
    tokenizer, theirs = recording.from_transformers(attn_implementation="eager")
    d_head = theirs.config.hidden_size // theirs.config.num_attention_heads

    def run(text: str, removed=()):
        """Their output on a text, with zeros instead of the removed heads' outputs."""

        def cut(layer):
            def hook(module, inputs):
                merged = inputs[0].clone()
                for _, head in (entry for entry in removed if entry[0] == layer):
                    merged[..., head * d_head : (head + 1) * d_head] = 0
                return (merged,)

            return hook

        hooks = [
            theirs.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(cut(layer))
            for layer in {layer for layer, _ in removed}
        ]
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            output = theirs(ids, output_attentions=True)
        for hook in hooks:
            hook.remove()
        return output

    with np.load(target, allow_pickle=False) as file:
        recorded = dict(file)
    largest = np.abs(torch.stack(run(TWICE).attentions)[:, 0].numpy() - recorded["weights"]).max()
    print(f"largest difference of a weight (kept in float16): {largest:.1e}")
    differences = {"probability": 0.0, "answer": 0.0, "kl": 0.0}
    for p, (prompt, answer) in enumerate(PROMPTS):
        whole = run(prompt).logits[0, -1].double()
        top = whole.topk(N_TOP).indices
        (answer_id,) = tokenizer(answer, add_special_tokens=False)["input_ids"]
        # The five heads that matter most to this prompt, five that matter least, and the four named groups.
        order = ranked(torch.tensor(recorded["head_kl"][p]))
        cases = [([head], "head", (p, *head)) for head in order[:5] + order[-5:]]
        cases += [(heads.tolist(), "group", (g, p)) for g, heads in enumerate(recorded["group_heads"][:4])]
        for removed, kind, at in cases:
            logits = run(prompt, removed).logits[0, -1].double()
            probabilities = logits.softmax(-1).numpy()
            for measured, value, expected in (
                ("probability", probabilities[top], recorded[f"{kind}_probabilities"][at]),
                ("answer", probabilities[answer_id], recorded[f"{kind}_answer_probabilities"][at]),
                ("kl", divergence(whole, logits).numpy(), recorded[f"{kind}_kl"][at]),
            ):
                differences[measured] = max(differences[measured], float(np.abs(value - expected).max()))
    for measured, value in differences.items():
        print(f"largest difference of {measured} with heads taken out: {value:.1e}")
    if largest > 5e-4 or max(differences.values()) > 1e-4:
        sys.exit("the recording does not agree with transformers")


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Measure the heads of SmolLM2-135M and take them out one by one.", TARGET)
    if options.verify:
        return verify(options.output)
    arrays = record(Model.read())
    np.savez_compressed(options.output, **arrays)  # equal arrays give equal bytes: the file holds no time
    for name in MEASURES:
        measured = torch.tensor(arrays[f"measure_{name}"]).mean(0)
        print(f"{name:17}", *(f"{layer}.{head} {measured[layer, head]:.2f}" for layer, head in ranked(measured)[:5]))
    print(f"{options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
