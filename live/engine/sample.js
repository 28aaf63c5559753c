// From logits to a token, as in the chapters softmax and language_model.

// Scores to weights that sum to one, in place. The largest is subtracted first, so that nothing overflows.
export function softmax(x) {
  let top = -Infinity, total = 0;
  for (const score of x) top = Math.max(top, score);
  for (let i = 0; i < x.length; i++) total += x[i] = Math.exp(x[i] - top);
  for (let i = 0; i < x.length; i++) x[i] /= total;
  return x;
}

export const argmax = (x) => x.reduce((best, value, i) => (value > x[best] ? i : best), 0);

// The probabilities from which `sample` draws: temperature, then the top_k largest, then the largest of what is left
// until they add up to top_p. The one that crosses top_p is kept.
export function probabilities(logits, { temperature = 1, top_k = null, top_p = null } = {}) {
  const x = Float64Array.from(logits, (logit) => logit / temperature);
  const keep = (least) => x.forEach((value, i) => { if (value < least) x[i] = -Infinity; });
  if (top_k !== null && top_k < x.length) keep(x.slice().sort()[x.length - top_k]);
  if (top_p !== null && top_p < 1) {
    const shares = softmax(x.slice()), ranked = shares.slice().sort().reverse();
    let held = 0, last = 0;
    for (; last < ranked.length - 1 && (held += ranked[last]) < top_p; last++);
    shares.forEach((share, i) => { if (share < ranked[last]) x[i] = -Infinity; });
  }
  return softmax(x);
}

// One token. At temperature 0 it is the most likely one. random: a function that gives numbers from 0 to below 1
export function sample(logits, { random = Math.random, ...cuts } = {}) {
  if (cuts.temperature === 0) return argmax(logits);
  const chances = probabilities(logits, cuts);
  let left = random(), last = 0;
  for (let i = 0; i < chances.length; i++) {
    if (chances[i] === 0) continue;
    left -= chances[last = i];
    if (left < 0) break;
  }
  return last;
}

// The same numbers for the same seed: Mulberry32 (Tommy Ettinger, public domain).
export function generator(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

// The most likely tokens, likeliest first: [id, probability].
export function likeliest(logits, k = 10) {
  const shares = softmax(Float64Array.from(logits));
  const least = shares.slice().sort()[Math.max(0, shares.length - k)];
  return [...shares.entries()].filter(([, share]) => share >= least).sort((a, b) => b[1] - a[1]).slice(0, k);
}
