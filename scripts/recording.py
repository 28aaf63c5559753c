"""Shared parts of the scripts that record SmolLM2-135M: arguments, model file, provenance, another implementation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch

from attnlab import smollm2

DATA = Path(__file__).resolve().parent.parent / "attnlab" / "data"


def parse(arguments: list[str] | None, description: str, target: Path) -> argparse.Namespace:
    """The arguments of a recording: `output`, the file to write or to verify, and `verify`.

    From here on `smollm2.find()` is the file that --model names. Exits with one line if there is no such file, if it is
    not the file that the course was recorded from, or if no model is installed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--model", metavar="PATH", type=Path, help=f"{smollm2.FILE_NAME}; by default that of `make model`"
    )
    parser.add_argument("--output", metavar="PATH", type=Path, default=target, help="the npz to write or to verify")
    parser.add_argument("--verify", action="store_true", help="compare with another implementation, write nothing")
    options = parser.parse_args(arguments)
    if options.model is not None:
        if not options.model.is_file():
            sys.exit(f"no such model file: {options.model}")
        os.environ[smollm2.SETTING] = str(options.model)
    try:
        if options.model is not None:
            smollm2.check_hash(options.model)  # also where the packages to read it with are missing
        path = smollm2.find()
    except smollm2.NoModel as error:
        sys.exit(str(error))
    if path is None:
        sys.exit(f"{smollm2.PACKAGE}, gguf or tokenizers is not installed: run make model")
    return options


def provenance(script: str, **more) -> str:
    """Return the origin of recorded numbers as JSON: the model, its file, the script, and the other arguments."""
    return json.dumps(
        {
            "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
            "licence": "Apache-2.0",
            "package": smollm2.PACKAGE,
            "package_version": smollm2.VERSION,
            "file": smollm2.FILE_NAME,
            "sha256": smollm2.SHA256,
            "quantisation": "Q4_1 matrices, Q8_0 embedding, F32 norms",
            "prompt": "the bare text, no chat template, no start token",
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
