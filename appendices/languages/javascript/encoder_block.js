// A pre-norm encoder block, in JavaScript.
"use strict";
const { add, multiply } = require("./matrix.js");
const { multiHead } = require("./multi_head.js");

const EPS = 1e-5;

function mean(row) {
  return row.reduce((sum, number) => sum + number, 0) / row.length;
}

// Each row with mean 0 and variance 1, then scaled and shifted.
function layerNorm(x, { weight, bias }) {
  return x.map((row) => {
    const middle = mean(row);
    const variance = mean(row.map((number) => (number - middle) ** 2));
    const spread = Math.sqrt(variance + EPS);
    return row.map((number, c) =>
      (number - middle) / spread * weight[c] + bias[c]);
  });
}

// Math has no erf. This series has no minus sign, so nothing cancels.
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; n < 150; n++) {
    term *= 2 * x * x / (2 * n + 1);
    sum += term;
  }
  return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
}

function gelu(x) {
  return 0.5 * x * (1 + erf(x / Math.SQRT2));
}

// (n, d_model) to (n, d_ff), GELU, and back.
function feedForward(x, { W_1, b_1, W_2, b_2 }) {
  const hidden = multiply(x, W_1).map((row) =>
    row.map((number, c) => gelu(number + b_1[c])));
  return multiply(hidden, W_2).map((row) =>
    row.map((number, c) => number + b_2[c]));
}

// x: (n, d_model), and so is the result.
function encoderBlock(x, block, mask) {
  const normed = layerNorm(x, block.norm_1);
  const heard = multiHead(normed, block.heads, mask).output;
  const between = add(x, heard);
  const found = feedForward(layerNorm(between, block.norm_2), block);
  return add(between, found);
}

module.exports = { encoderBlock };
