// The mask that hides the future, in JavaScript.
"use strict";

// Returns (nQ, nK): true up to each query's own position.
// The last query has the position of the last key.
function causalMask(nQ, nK) {
  const mask = Array.from({ length: nQ }, () => Array(nK).fill(false));
  for (let i = 0; i < nQ; i++) {
    for (let j = 0; j < nK; j++) {
      if (j <= i + nK - nQ) mask[i][j] = true;
    }
  }
  return mask;
}

module.exports = { causalMask };
