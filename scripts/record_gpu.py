"""Record what attention and decoding cost on a GPU, and keep it as attnlab/data/efficient_attention_gpu.json.

The chapter on efficient attention measures this itself where there is a GPU, and shows this recording where there is
none. While there is no file the page says so. What is measured, and how, is in `attnlab.gpu`.

    make model                                        # for the decoding; without it that part is left out
    python scripts/record_gpu.py                      # on a machine with CUDA; writes the file
    python scripts/record_gpu.py --dry --to some.json # tiny sizes on the CPU: tests the script only

The model of the decoding is SmolLM2-135M in bfloat16, in the course's own modules; a dry run takes a tiny one without
training.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import gpu, smollm2
from solutions.language_model import LanguageModel, generate


def record(arguments: list[str], dry: bool) -> dict:
    """Everything that is kept."""
    device = "cpu" if dry else "cuda"
    sizes = dict(heads=2, width=4) if dry else dict(heads=gpu.HEADS, width=gpu.WIDTH)
    torch.manual_seed(0)
    path, model = None, None
    if dry:
        model = LanguageModel(vocab_size=200, d_model=8, n_layers=1, n_heads=2, n_kv_heads=1, d_ff=8).eval()
    elif path := smollm2.find():
        model = smollm2.load(LanguageModel).to(torch.bfloat16)
    return {
        **gpu.machine(device),
        "command": shlex.join(["python", "scripts/record_gpu.py", *arguments]),
        "dry": dry,
        **sizes,
        "dtype": "float32" if dry else "bfloat16",
        "model": {"package": smollm2.PACKAGE, "version": smollm2.VERSION, "file": path.name, "sha256": smollm2.SHA256}
        if path
        else None,
        "attention": gpu.attention_costs(device, **sizes, **(dict(lengths=(16, 32), repeats=2) if dry else {})),
        "decoding": model
        and gpu.decoding_costs(model, generate, device, **(dict(prompt=5, new=3, repeats=1) if dry else {})),
    }


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; needs --to")
    parser.add_argument("--to", type=Path, default=gpu.FILE, help="the file to write")
    options = parser.parse_args(arguments)
    if options.dry and options.to.resolve() == gpu.FILE:
        parser.error("a dry run proves nothing and is not kept with the course: name another file with --to")
    if not options.dry and not torch.cuda.is_available():
        parser.error("there is no CUDA here; --dry --to FILE tries the script on the CPU")
    found = record(arguments, options.dry)
    options.to.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(gpu.say_attention(found), gpu.say_decoding(found), f"-> {options.to.name}", sep="\n")


if __name__ == "__main__":
    main()
