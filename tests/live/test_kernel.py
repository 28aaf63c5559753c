"""The matrix product: its committed bytes, and its two versions against dequantized weights."""

import numpy as np
import pytest

from live import kernel

SEED = 41
MULTIPLY = """
console.log(JSON.stringify([engine.kernel, null].map((kernel) => {
  const memory = new engine.Memory(1e6, kernel, given.tokens), W = memory.matrix(given.kind, given.rows, given.cols);
  W.bytes.set(readFileSync(given.weights));
  const x = memory.floats(given.tokens * given.cols), y = memory.floats(given.tokens * given.rows);
  x.set(given.x);
  memory.linear(y, W, x, given.tokens);
  return [memory.simd, Array.from(y)];
})));
"""


def test_the_committed_bytes_are_those_of_the_source(model_tools):
    assert kernel.BYTES.read_bytes() == kernel.assembled()


@pytest.mark.parametrize("kind", ["q4_1", "q8_0"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_a_product_is_that_of_the_dequantized_weights(node, model_tools, rng, tmp_path, kind, tokens):
    import gguf

    rows, cols, kept = 7, 96, gguf.GGMLQuantizationType[kind.upper()]
    matrix = rng.normal(size=(rows, cols)).astype(np.float32)
    matrix[1], matrix[2, :32], matrix[3] = matrix[1] * 1e-6, 0, matrix[3] * 1e4  # scales below the normal halves, too
    packed = gguf.quantize(matrix, kept)
    x = rng.normal(size=(tokens, cols)).astype(np.float32)
    weights = tmp_path / "weights"
    weights.write_bytes(packed.tobytes())
    given = dict(kind=kind, rows=rows, cols=cols, tokens=tokens, x=x.ravel().tolist(), weights=str(weights))
    unpacked = gguf.dequantize(packed, kept).astype(np.float64)
    expected = x.astype(np.float64) @ unpacked.T
    found = node(MULTIPLY, **given)
    assert [simd for simd, _ in found] == [True, False]
    for _, y in found:  # as near as sums in single precision are
        assert (np.abs(np.reshape(y, expected.shape) - expected) <= 2e-6 * (np.abs(x) @ np.abs(unpacked).T)).all()
