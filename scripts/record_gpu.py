"""Record what the GPU cells of the chapter on efficient attention measure, for readers without a GPU.

    python scripts/record_gpu.py attnlab/data/gpu.json

It needs a CUDA device, and no weights: the time of a model does not depend on them. The model has the sizes of
SmolLM2-135M and the parts of `solutions`.
"""

import json
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attnlab import gpu  # noqa: E402
from solutions.language_model import LanguageModel, generate  # noqa: E402

# As `attnlab.smollm2.config()` reads them from the model's file.
SIZES = dict(vocab_size=49152, d_model=576, n_layers=30, n_heads=9, n_kv_heads=3, d_ff=1536, base=100000.0, eps=1e-5)


def record(device: str = "cuda") -> dict:
    torch.manual_seed(0)
    model = LanguageModel(**SIZES).to(torch.bfloat16)
    return {
        **gpu.machine(device),
        "attention": gpu.attention_costs(device),
        "decoding": gpu.decoding_costs(model, generate, device),
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(record(), indent=1) + "\n", "ascii")
