// Scaled dot-product attention with a mask, in JavaScript.
//
//     node attention.js < problem.txt
"use strict";
const { readFileSync } = require("fs");

// A matrix is an array of rows. The mask holds 1 where a query may attend
// to a key, and 0 elsewhere.
function attend(Q, K, V, mask) {
  const root = Math.sqrt(K[0].length);
  const output = Q.map(() => V[0].map(() => 0));
  const weights = Q.map(() => K.map(() => 0));
  Q.forEach((query, i) => {
    // 1. Scaled scores; minus infinity where the mask says no.
    let largest = -Infinity;
    const scores = K.map((key, j) => {
      let score = 0;
      for (let c = 0; c < key.length; c++) score += query[c] * key[c];
      return mask[i][j] === 1 ? score / root : -Infinity;
    });
    // 2. Their maximum. A query with no key keeps its zeros.
    for (const score of scores) largest = Math.max(largest, score);
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

// Takes one word after another from the input.
class Words {
  constructor(text) {
    this.words = text.split(/\s+/).filter((word) => word !== "");
    this.next = 0;
  }

  more() {
    return this.next < this.words.length;
  }

  // The next word as a number, which must be within bounds.
  number(name, low, high, whole = false) {
    if (!this.more()) throw new Error(`${name}: the input ends too soon`);
    const word = this.words[this.next++];
    const number = Number(word);
    const within = number >= low && number <= high;  // not for NaN
    if (!within || (whole && !Number.isInteger(number))) {
      const kind = whole ? "whole number" : "number";
      throw new Error(
        `${name}: '${word}' is no ${kind} from ${low} to ${high}`);
    }
    return number;
  }

  matrix(name, rows, columns, low = -1e150, high = 1e150, whole = false) {
    const row = () => Array.from({ length: columns }, () =>
      this.number(name, low, high, whole));
    return Array.from({ length: rows }, row);
  }

  problem() {
    const [n_q, n_k, d_k, d_v] = ["n_q", "n_k", "d_k", "d_v"].map(
      (name) => this.number(name, 1, 1000, true));
    const Q = this.matrix("Q", n_q, d_k);
    const K = this.matrix("K", n_k, d_k);
    const V = this.matrix("V", n_k, d_v);
    const mask = this.matrix("mask", n_q, n_k, 0, 1, true);
    return [Q, K, V, mask];
  }
}

function main() {
  const words = new Words(readFileSync(0, "utf8"));
  do {
    const { output, weights } = attend(...words.problem());
    console.log("output");
    for (const row of output) console.log(row.join(" "));
    console.log("weights");
    for (const row of weights) console.log(row.join(" "));
  } while (words.more());
}

try {
  main();
} catch (error) {
  console.error(`attention: ${error.message}`);
  process.exitCode = 1;
}
