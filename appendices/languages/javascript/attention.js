// Scaled dot-product attention with a mask, in JavaScript.
"use strict";
const { dot } = require("./matrix.js");

// Returns the output (n_q, d_v) and the weights (n_q, n_k).
function attend(Q, K, V, mask) {
  const root = Math.sqrt(K[0].length);
  const output = Q.map(() => V[0].map(() => 0));
  const weights = Q.map(() => K.map(() => 0));
  Q.forEach((query, i) => {
    // 1. Scaled scores; minus infinity where the mask says no.
    const scores = K.map((key, j) =>
      mask[i][j] ? dot(query, key) / root : -Infinity);
    // 2. Their maximum. A query with no key keeps its zeros.
    const largest = Math.max(...scores);
    if (largest === -Infinity) return;
    // 3. Exponentials and their total. Math.exp(-Infinity) is 0.
    let total = 0;
    scores.forEach((score, j) => {
      weights[i][j] = Math.exp(score - largest);
      total += weights[i][j];
    });
    // 4. Weights, and the blend of the values.
    V.forEach((value, j) => {
      weights[i][j] /= total;
      value.forEach((number, c) => {
        output[i][c] += weights[i][j] * number;
      });
    });
  });
  return { output, weights };
}

module.exports = { attend };
