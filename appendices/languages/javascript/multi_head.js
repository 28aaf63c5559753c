// Multi-head attention, in JavaScript.
"use strict";
const { attend } = require("./attention.js");
const { multiply } = require("./matrix.js");

// Returns the output (n, d_model) and a map of weights for each head.
function multiHead(x, { nHeads, W_q, W_k, W_v, W_o }, mask) {
  const dHead = x[0].length / nHeads;
  const projected = [W_q, W_k, W_v].map((W) => multiply(x, W));
  const merged = x.map(() => []);
  const weights = [];
  for (let h = 0; h < nHeads; h++) {
    // A head has its own columns of all three.
    const [q, k, v] = projected.map((M) =>
      M.map((row) => row.slice(h * dHead, (h + 1) * dHead)));
    const head = attend(q, k, v, mask);
    merged.forEach((row, i) => row.push(...head.output[i]));
    weights.push(head.weights);
  }
  return { output: multiply(merged, W_o), weights };
}

module.exports = { multiHead };
