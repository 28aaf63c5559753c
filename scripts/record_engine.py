"""Record the logits of the engine in live/, with those of the course's modules, as attnlab/data/engine.npz.

Both read the sentence whose logits `record_generation.py` has from an independent program. The engine runs in Node.

    make model
    python scripts/record_engine.py               # writes the file, in less than a minute
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import data, smollm2
from live import shards
from scripts import record_generation as compared
from scripts import recording
from solutions.language_model import LanguageModel

TARGET = recording.DATA / "engine.npz"
IN_NODE = Path(__file__).resolve().parent.parent / "tests" / "live" / "node.js"
PROGRAM = """\
const { logitsOf, opened, save } = await import(process.argv[1]);
const [folder, ids, path] = process.argv.slice(2);
save(path, [logitsOf(opened(folder).model, JSON.parse(ids))]);
"""


def engine_logits(ids: list[int], folder: Path) -> np.ndarray:
    """(n, vocabulary) logits of a text that the engine reads in one piece, with the model's pieces in `folder`."""
    written = folder / "logits"
    given = [IN_NODE.as_uri(), str(folder), json.dumps(ids), str(written)]
    subprocess.run(["node", "--input-type=module", "--eval", PROGRAM, *given], check=True)
    return np.fromfile(written, "<f4").reshape(len(ids), -1)


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, __doc__.splitlines()[0], TARGET)
    ids = data.generation().compared_ids.tolist()
    with torch.no_grad():
        course = smollm2.load(LanguageModel)(torch.tensor([ids]))[0].numpy()
    with tempfile.TemporaryDirectory() as folder:
        shards.write(Path(folder))
        engine = engine_logits(ids, Path(folder))
    np.savez_compressed(
        options.output,
        engine=engine[:, :: compared.EVERY],
        course=course[:, :: compared.EVERY],
        provenance=np.array(recording.provenance(__file__, precision="float32, both")),
    )
    apart = np.abs(engine - course).max()
    print(f"{options.output.stat().st_size} bytes; the engine and the course's modules differ by {apart:.1e}")


if __name__ == "__main__":
    main()
