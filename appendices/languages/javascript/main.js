// Five programs in JavaScript: the first argument says which.
//
//     node main.js attention < problem.txt
"use strict";
const { readFileSync } = require("fs");
const { attend } = require("./attention.js");
const { causalMask } = require("./causal_mask.js");
const { encoderBlock } = require("./encoder_block.js");
const { Reader, printMatrix } = require("./matrix.js");
const { multiHead } = require("./multi_head.js");
const { sinusoidalEncoding } = require("./sinusoidal_encoding.js");

function runAttention(input, causal = false) {
  const [nQ, nK, dK, dV] = input.sizes("n_q", "n_k", "d_k", "d_v");
  const Q = input.matrix("Q", nQ, dK);
  const K = input.matrix("K", nK, dK);
  const V = input.matrix("V", nK, dV);
  const mask = causal ? causalMask(nQ, nK) : input.mask(nQ, nK);
  const { output, weights } = attend(Q, K, V, mask);
  printMatrix("output", output);
  printMatrix("weights", weights);
}

function readHeads(input, dModel, nHeads) {
  if (dModel % nHeads !== 0) {
    throw new Error(`n_heads: ${nHeads} does not divide ${dModel}`);
  }
  const [W_q, W_k, W_v, W_o] = ["W_q", "W_k", "W_v", "W_o"].map(
    (name) => input.matrix(name, dModel, dModel));
  return { nHeads, W_q, W_k, W_v, W_o };
}

function readNorm(input, name, dModel) {
  const [weight, bias] = input.matrix(name, 2, dModel);
  return { weight, bias };
}

function runMultiHead(input) {
  const [n, dModel, nHeads] = input.sizes("n", "d_model", "n_heads");
  const x = input.matrix("x", n, dModel);
  const heads = readHeads(input, dModel, nHeads);
  const { output, weights } = multiHead(x, heads, input.mask(n, n));
  printMatrix("output", output);
  for (const map of weights) printMatrix("weights", map);
}

function runSinusoidalEncoding(input) {
  const [n, dModel] = input.sizes("n", "d_model");
  if (dModel % 2 !== 0) throw new Error(`d_model: ${dModel} is odd`);
  printMatrix("encoding", sinusoidalEncoding(n, dModel));
}

function runEncoderBlock(input) {
  const [n, dModel, nHeads, dFf] = input.sizes(
    "n", "d_model", "n_heads", "d_ff");
  const x = input.matrix("x", n, dModel);
  const block = {
    norm_1: readNorm(input, "norm_1", dModel),
    heads: readHeads(input, dModel, nHeads),
    norm_2: readNorm(input, "norm_2", dModel),
    W_1: input.matrix("W_1", dModel, dFf),
    b_1: input.matrix("b_1", 1, dFf)[0],
    W_2: input.matrix("W_2", dFf, dModel),
    b_2: input.matrix("b_2", 1, dModel)[0],
  };
  printMatrix("output", encoderBlock(x, block, input.mask(n, n)));
}

const RUN = new Map([
  ["attention", runAttention],
  ["multi_head", runMultiHead],
  ["sinusoidal_encoding", runSinusoidalEncoding],
  ["encoder_block", runEncoderBlock],
  ["causal_mask", (input) => runAttention(input, true)],
]);

function main() {
  const name = process.argv[2] ?? "";
  const run = RUN.get(name);
  if (!run) throw new Error(`'${name}' is not the name of a program`);
  const input = new Reader(readFileSync(0, "utf8"));
  do {
    run(input);
  } while (input.more());
}

try {
  main();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
