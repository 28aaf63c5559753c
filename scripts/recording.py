"""Shared parts of the scripts that record a real model: arguments, model file, provenance, another implementation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch

from attnlab import gemma, model_files, smollm2

DATA = Path(__file__).resolve().parent.parent / "attnlab" / "data"
# By the module that reads the model: what gets it, and what a recording says about it.
GETS = {smollm2: "make model", gemma: "make gemma"}
ORIGINS = {
    smollm2: {
        "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "licence": "Apache-2.0",
        "quantisation": "Q4_1 matrices, Q8_0 embedding, F32 norms",
        "prompt": "the bare text, no chat template, no start token",
    },
    gemma: {
        "model": "google/gemma-3-270m",
        "licence": f"Gemma Terms of Use, {gemma.TERMS}",
        "quantisation": "Q4_K, Q5_0, Q6_K and Q8_0 matrices, Q8_0 embedding, F32 norms",
        "prompt": "the bare text after the start token",
    },
}


def parse(arguments: list[str] | None, description: str, target: Path, of=smollm2) -> argparse.Namespace:
    """The arguments of a recording: `output`, the file to write or to verify, and `verify`.

    of: the module that reads the model, `smollm2` or `gemma`
    From here on its `find()` is the file that --model names. Exits with one line if there is no such file, if it is
    not the file that the course was recorded from, or if no model is installed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", metavar="PATH", type=Path, help=f"{of.FILE_NAME}; by default that of `{GETS[of]}`")
    parser.add_argument("--output", metavar="PATH", type=Path, default=target, help="the npz to write or to verify")
    parser.add_argument("--verify", action="store_true", help="compare with another implementation, write nothing")
    options = parser.parse_args(arguments)
    if options.model is not None:
        if not options.model.is_file():
            sys.exit(f"no such model file: {options.model}")
        os.environ[of.SETTING] = str(options.model)
    try:
        if options.model is not None:
            model_files.check_hash(options.model, of.SHA256)  # also where the packages to read it with are missing
        path = of.find()
    except model_files.NoModel as error:
        sys.exit(str(error))
    if path is None:
        sys.exit(f"{of.PACKAGE}, or a package that reads it, is not installed: run {GETS[of]}")
    return options


def provenance(script: str, of=smollm2, **more) -> str:
    """Return the origin of recorded numbers as JSON: the model, its file, the script, and the other arguments."""
    origin = ORIGINS[of]
    return json.dumps(
        {
            "model": origin["model"],
            "licence": origin["licence"],
            "package": of.PACKAGE,
            "package_version": of.VERSION,
            "file": of.FILE_NAME,
            "sha256": of.SHA256,
            "quantisation": origin["quantisation"],
            "prompt": origin["prompt"],
            "script": f"scripts/{Path(script).name}",
            "torch": torch.__version__.split("+")[0],
            **more,
        },
        indent=1,
    )


def from_transformers(**options):
    """The tokenizer and the model that `transformers` makes of the same file, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = smollm2.find()
    given = {"gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **given)
    return tokenizer, AutoModelForCausalLM.from_pretrained(path.parent, **given, dtype=torch.float32, **options).eval()
