// Sines and cosines that tell positions apart, in JavaScript.
"use strict";

// Returns (n, dModel): sines in even columns, cosines in odd ones.
function sinusoidalEncoding(n, dModel) {
  const table = [];
  for (let position = 0; position < n; position++) {
    const row = [];
    for (let c = 0; c < dModel; c += 2) {
      const angle = position * 10000 ** (-c / dModel);
      row.push(Math.sin(angle), Math.cos(angle));
    }
    table.push(row);
  }
  return table;
}

module.exports = { sinusoidalEncoding };
