"""The matrix product: its committed bytes, and its two versions against dequantized weights."""

import gguf
import numpy as np
import pytest

from live import kernel

SEED = 41
KINDS = {"q4_1": gguf.GGMLQuantizationType.Q4_1, "q8_0": gguf.GGMLQuantizationType.Q8_0}
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


def test_the_committed_bytes_are_those_of_the_source():
    assert kernel.BYTES.read_bytes() == kernel.assembled()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 5])
def test_a_product_is_that_of_the_dequantized_weights(node, rng, tmp_path, kind, tokens):
    rows, cols = 7, 96
    matrix = rng.normal(size=(rows, cols)).astype(np.float32)
    matrix[1], matrix[2, :32], matrix[3] = matrix[1] * 1e-6, 0, matrix[3] * 1e4  # scales below the normal halves, too
    packed = gguf.quantize(matrix, KINDS[kind])
    x = rng.normal(size=(tokens, cols)).astype(np.float32)
    weights = tmp_path / "weights"
    weights.write_bytes(packed.tobytes())
    given = dict(kind=kind, rows=rows, cols=cols, tokens=tokens, x=x.ravel().tolist(), weights=str(weights))
    expected = x.astype(np.float64) @ gguf.dequantize(packed, KINDS[kind]).T.astype(np.float64)
    found = node(MULTIPLY, **given)
    assert [simd for simd, _ in found] == [True, False]
    for _, y in found:
        np.testing.assert_allclose(
            np.reshape(y, expected.shape), expected, rtol=2e-6, atol=2e-6 * np.abs(matrix).max(1)
        )
