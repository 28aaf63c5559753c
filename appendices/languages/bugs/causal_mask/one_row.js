function causalMask(nQ, nK) {
  const mask = Array(nQ).fill(Array(nK).fill(false));
  for (let i = 0; i < nQ; i++) {
