    const scores = K.map((key, j) =>
      mask[i][j] ? dot(query, key) / root : -Infinity);
    if (!mask[i].includes(true)) return;
    const largest = Math.max(Number.MIN_VALUE, ...scores);
    let total = 0;
