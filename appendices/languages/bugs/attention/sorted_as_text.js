    const scores = K.map((key, j) =>
      mask[i][j] ? dot(query, key) / root : -Infinity);
    const largest = [...scores].sort().at(-1);
    if (largest === -Infinity) return;
