// Matrices in JavaScript, as arrays of rows: multiplied, read, printed.
"use strict";

function dot(a, b) {
  return a.reduce((sum, number, c) => sum + number * b[c], 0);
}

function multiply(A, B) {
  const columns = B[0].map((_, c) => B.map((row) => row[c]));
  return A.map((row) => columns.map((column) => dot(row, column)));
}

// The sum of two matrices of the same shape, as a new matrix.
function add(A, B) {
  return A.map((row, i) => row.map((number, c) => number + B[i][c]));
}

// Takes one word after another from the input.
class Reader {
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
    const within = number >= low && number <= high; // not for NaN
    if (!within || (whole && !Number.isInteger(number))) {
      const kind = whole ? "whole number" : "number";
      throw new Error(
        `${name}: '${word}' is not a ${kind} from ${low} to ${high}`);
    }
    return number;
  }

  sizes(...names) {
    return names.map((name) => this.number(name, 1, 1000, true));
  }

  matrix(name, rows, columns) {
    const row = () => Array.from({ length: columns }, () =>
      this.number(name, -1e30, 1e30));
    return Array.from({ length: rows }, row);
  }

  // true where a query may attend to a key.
  mask(rows, columns) {
    const row = () => Array.from({ length: columns }, () =>
      this.number("mask", 0, 1, true) === 1);
    return Array.from({ length: rows }, row);
  }
}

function printMatrix(title, matrix) {
  console.log([title, ...matrix.map((row) => row.join(" "))].join("\n"));
}

module.exports = { multiply, add, dot, Reader, printMatrix };
