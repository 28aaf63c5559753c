  Q.forEach((query, i) => {
    let largest = Number.MIN_VALUE;
    const scores = K.map((key, j) => {
      let score = 0;
      for (let c = 0; c < key.length; c++) score += query[c] * key[c];
      return mask[i][j] === 1 ? score / root : -Infinity;
    });
    for (const score of scores) largest = Math.max(largest, score);
    if (!mask[i].includes(1)) return;
    let total = 0;
    scores.forEach((score, j) => {
      weights[i][j] = Math.exp(score - largest);
