// Mulberry32 (Tommy Ettinger, public domain): numbers from 0 to 1, out of 32 bits of state. It needs nothing from
// outside, so that its text can also be part of a worker's program.
function uniform(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
