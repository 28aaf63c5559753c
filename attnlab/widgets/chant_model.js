// A small Llama in plain JavaScript: what it makes of a text, the gradient of its loss, and a step of Adam. It is the
// `LanguageModel` of the chapter on the whole model, with one key/value head. Tables are flat, row after row.
//
// Both functions need nothing from outside but `uniform`, so that their text can also be the program of a worker.

function chantModel({ vocabulary = 26, width = 32, layers = 2, heads = 2, hidden = 64, base = 100, longest = 30 } = {}) {
  const wide = width / heads; // of a head
  const half = wide / 2;
  const table = (...sizes) => new Float64Array(sizes.reduce((a, b) => a * b));

  // All parameters are one list, in the order of PyTorch's `parameters()`, and so are their gradients.
  const places = {};
  let size = 0;
  const place = (name, rows, columns = 1) => {
    places[name] = [size, size + rows * columns];
    size += rows * columns;
  };
  place("embedding", vocabulary, width);
  for (let layer = 0; layer < layers; layer++)
    for (const [name, rows, columns] of [["norm_1", width], ["W_q", width, width], ["W_k", wide, width],
      ["W_v", wide, width], ["W_o", width, width], ["norm_2", width], ["W_gate", hidden, width], ["W_up", hidden, width],
      ["W_down", width, hidden]]) place(`${name} ${layer}`, rows, columns);
  place("norm", width);
  const [parameters, gradient, mean, square] = Array.from({ length: 4 }, () => table(size));
  const parts = (list) => Object.fromEntries(Object.entries(places).map(([name, ends]) => [name, list.subarray(...ends)]));
  const [P, G] = [parts(parameters), parts(gradient)];

  // C[i][j] += sum over k of A[i][k] B[j][k], for even I and J. How far apart rows and columns are is given, so a
  // table can be read as its transpose. Four sums at a time: each number that is fetched is used twice.
  function multiply(C, cRow, A, aRow, aColumn, B, bRow, bColumn, I, J, K) {
    for (let i = 0; i < I; i += 2) {
      for (let j = 0; j < J; j += 2) {
        let a = i * aRow, b = j * bRow, s00 = 0, s01 = 0, s10 = 0, s11 = 0;
        for (let k = 0; k < K; k++) {
          const a0 = A[a], a1 = A[a + aRow], b0 = B[b], b1 = B[b + bRow];
          s00 += a0 * b0;
          s01 += a0 * b1;
          s10 += a1 * b0;
          s11 += a1 * b1;
          a += aColumn;
          b += bColumn;
        }
        const c = i * cRow + j;
        C[c] += s00;
        C[c + 1] += s01;
        C[c + cRow] += s10;
        C[c + cRow + 1] += s11;
      }
    }
  }
  // Y (n, outputs) = X (n, inputs) W^T, and what its gradient dY adds to those of X and W.
  const linear = (Y, X, W, n, inputs, outputs) =>
    multiply(Y.fill(0), outputs, X, inputs, 1, W, inputs, 1, n, outputs, inputs);
  function linearBack(dX, dW, dY, X, W, n, inputs, outputs) {
    multiply(dX, inputs, dY, outputs, 1, W, 1, inputs, n, inputs, outputs);
    multiply(dW, inputs, dY, 1, outputs, X, 1, inputs, outputs, inputs, n);
  }

  // Rows divided by their root mean square, times a weight. `scales` keeps what each row was multiplied by.
  function norm(Y, scales, X, weight, n) {
    for (let t = 0; t < n; t++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += X[t * width + i] ** 2;
      scales[t] = 1 / Math.sqrt(sum / width + 1e-5);
      for (let i = 0; i < width; i++) Y[t * width + i] = X[t * width + i] * scales[t] * weight[i];
    }
  }
  function normBack(dX, dWeight, dY, scales, X, weight, n) {
    for (let t = 0; t < n; t++) {
      const at = t * width;
      let along = 0;
      for (let i = 0; i < width; i++) along += dY[at + i] * weight[i] * X[at + i];
      const shrink = (along * scales[t] ** 2) / width;
      for (let i = 0; i < width; i++) {
        dX[at + i] += scales[t] * (dY[at + i] * weight[i] - X[at + i] * shrink);
        dWeight[i] += dY[at + i] * X[at + i] * scales[t];
      }
    }
  }

  // RoPE: in each head, the pairs (p, p + half) are turned by the position times the pair's frequency; -1 turns back.
  const [cosine, sine] = [table(longest, half), table(longest, half)];
  for (let t = 0; t < longest; t++) {
    for (let p = 0; p < half; p++) {
      cosine[t * half + p] = Math.cos(t * base ** (-p / half));
      sine[t * half + p] = Math.sin(t * base ** (-p / half));
    }
  }
  function turn(X, n, columns, direction = 1) {
    for (let t = 0; t < n; t++) {
      for (let at = t * columns; at < (t + 1) * columns; at += wide) {
        for (let p = 0; p < half; p++) {
          const c = cosine[t * half + p], s = direction * sine[t * half + p], left = X[at + p], right = X[at + p + half];
          X[at + p] = left * c - right * s;
          X[at + p + half] = left * s + right * c;
        }
      }
    }
  }

  // Causal attention of each query head with the one head of keys and values.
  const scale = 1 / Math.sqrt(wide);
  function attend(out, maps, q, k, v, n) {
    out.fill(0);
    maps.fill(0);
    for (let h = 0; h < heads; h++) {
      for (let i = 0; i < n; i++) {
        const row = (h * n + i) * n, at = i * width + h * wide;
        let top = -Infinity, total = 0;
        for (let j = 0; j <= i; j++) {
          let score = 0;
          for (let d = 0; d < wide; d++) score += q[at + d] * k[j * wide + d];
          maps[row + j] = score * scale;
          top = Math.max(top, maps[row + j]);
        }
        for (let j = 0; j <= i; j++) total += maps[row + j] = Math.exp(maps[row + j] - top);
        for (let j = 0; j <= i; j++) {
          maps[row + j] /= total;
          for (let d = 0; d < wide; d++) out[at + d] += maps[row + j] * v[j * wide + d];
        }
      }
    }
  }
  const slopes = table(longest);
  function attendBack(dq, dk, dv, dOut, maps, q, k, v, n) {
    for (let h = 0; h < heads; h++) {
      for (let i = 0; i < n; i++) {
        const row = (h * n + i) * n, at = i * width + h * wide;
        let along = 0;
        for (let j = 0; j <= i; j++) {
          slopes[j] = 0;
          for (let d = 0; d < wide; d++) {
            slopes[j] += dOut[at + d] * v[j * wide + d];
            dv[j * wide + d] += maps[row + j] * dOut[at + d];
          }
          along += maps[row + j] * slopes[j];
        }
        for (let j = 0; j <= i; j++) {
          const slope = maps[row + j] * (slopes[j] - along) * scale; // the softmax's gradient
          for (let d = 0; d < wide; d++) {
            dq[at + d] += slope * k[j * wide + d];
            dk[j * wide + d] += slope * q[at + d];
          }
        }
      }
    }
  }

  // The values that each layer keeps of a text for its gradient, and room for a gradient on its way down.
  const rows = (columns) => table(longest, columns);
  const layer = () => ({ x: rows(width), normed: rows(width), scales: rows(1), q: rows(width), k: rows(wide),
    v: rows(wide), maps: table(heads, longest, longest), heard: rows(width), middle: rows(width), again: rows(width),
    rescales: rows(1), gate: rows(hidden), up: rows(hidden), passed: rows(hidden) });
  const kept = Array.from({ length: layers }, layer), d = layer();
  const [last, final, finals, logits, dLogits, out] =
    [rows(width), rows(width), rows(1), rows(vocabulary), rows(vocabulary), rows(width)];
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const add = (A, B, n) => {
    for (let i = 0; i < n * width; i++) A[i] += B[i];
  };

  // Reads a text: `logits` and each layer's `maps` are filled.
  function read(ids) {
    const n = ids.length;
    ids.forEach((id, t) => last.set(P.embedding.subarray(id * width, (id + 1) * width), t * width));
    kept.forEach((a, l) => {
      a.x.set(last);
      norm(a.normed, a.scales, a.x, P[`norm_1 ${l}`], n);
      for (const [name, size] of [["q", width], ["k", wide], ["v", wide]])
        linear(a[name], a.normed, P[`W_${name} ${l}`], n, width, size);
      turn(a.q, n, width);
      turn(a.k, n, wide);
      attend(a.heard, a.maps, a.q, a.k, a.v, n);
      linear(out, a.heard, P[`W_o ${l}`], n, width, width);
      add(last, out, n);
      a.middle.set(last);
      norm(a.again, a.rescales, a.middle, P[`norm_2 ${l}`], n);
      for (const name of ["gate", "up"]) linear(a[name], a.again, P[`W_${name} ${l}`], n, width, hidden);
      for (let i = 0; i < n * hidden; i++) a.passed[i] = a.gate[i] * sigmoid(a.gate[i]) * a.up[i];
      linear(out, a.passed, P[`W_down ${l}`], n, hidden, width);
      add(last, out, n);
    });
    norm(final, finals, last, P.norm, n);
    linear(logits, final, P.embedding, n, width, vocabulary);
  }

  // Nats of each token but the first, after `read`. The gradient of `share` times their sum is left in `dLogits`.
  function nats(ids, share = 1) {
    dLogits.fill(0);
    return Array.from({ length: ids.length - 1 }, (_, t) => {
      const row = logits.subarray(t * vocabulary, (t + 1) * vocabulary);
      const top = Math.max(...row);
      let total = 0;
      for (const logit of row) total += Math.exp(logit - top);
      row.forEach((logit, i) => (dLogits[t * vocabulary + i] = (share * Math.exp(logit - top)) / total));
      dLogits[t * vocabulary + ids[t + 1]] -= share;
      return Math.log(total) + top - row[ids[t + 1]];
    });
  }

  // Adds the gradient of what `read` and `nats` were called for last: the same lines from the last to the first.
  function back(ids) {
    const n = ids.length;
    const clear = (...names) => names.forEach((name) => d[name].fill(0));
    out.fill(0);
    linearBack(out, G.embedding, dLogits, final, P.embedding, n, width, vocabulary);
    d.x.fill(0);
    normBack(d.x, G.norm, out, finals, last, P.norm, n);
    for (let l = layers - 1; l >= 0; l--) {
      const a = kept[l]; // d.x: the gradient of the stream
      clear("passed", "again", "heard", "normed", "q", "k", "v");
      linearBack(d.passed, G[`W_down ${l}`], d.x, a.passed, P[`W_down ${l}`], n, hidden, width);
      for (let i = 0; i < n * hidden; i++) {
        const open = sigmoid(a.gate[i]);
        d.up[i] = d.passed[i] * a.gate[i] * open;
        d.gate[i] = d.passed[i] * a.up[i] * open * (1 + a.gate[i] * (1 - open));
      }
      for (const name of ["gate", "up"])
        linearBack(d.again, G[`W_${name} ${l}`], d[name], a.again, P[`W_${name} ${l}`], n, width, hidden);
      normBack(d.x, G[`norm_2 ${l}`], d.again, a.rescales, a.middle, P[`norm_2 ${l}`], n);
      linearBack(d.heard, G[`W_o ${l}`], d.x, a.heard, P[`W_o ${l}`], n, width, width);
      attendBack(d.q, d.k, d.v, d.heard, a.maps, a.q, a.k, a.v, n);
      turn(d.q, n, width, -1);
      turn(d.k, n, wide, -1);
      for (const [name, size] of [["q", width], ["k", wide], ["v", wide]])
        linearBack(d.normed, G[`W_${name} ${l}`], d[name], a.normed, P[`W_${name} ${l}`], n, width, size);
      normBack(d.x, G[`norm_1 ${l}`], d.normed, a.scales, a.x, P[`norm_1 ${l}`], n);
    }
    ids.forEach((id, t) => {
      for (let i = 0; i < width; i++) G.embedding[id * width + i] += d.x[t * width + i];
    });
  }

  // Mean nats per token of several texts; the gradient of that mean is left in `gradient`.
  function learn(texts) {
    gradient.fill(0);
    const share = 1 / (texts.length * (texts[0].length - 1));
    let loss = 0;
    for (const ids of texts) {
      read(ids);
      for (const one of nats(ids, share)) loss += one * share;
      back(ids);
    }
    return loss;
  }

  // Adam, with PyTorch's defaults.
  let steps = 0;
  function step(rate) {
    steps += 1;
    const [first, second] = [1 - 0.9 ** steps, 1 - 0.999 ** steps];
    for (let i = 0; i < size; i++) {
      mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
      square[i] = 0.999 * square[i] + 0.001 * gradient[i] ** 2;
      parameters[i] -= (rate * mean[i]) / first / (Math.sqrt(square[i] / second) + 1e-8);
    }
  }

  // Random numbers as PyTorch's layers draw them: normal for the embedding, here made small, uniform for the matrices.
  function begin(random) {
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    for (const [name, list] of Object.entries(P)) {
      const reach = 1 / Math.sqrt(name.startsWith("W_down") ? hidden : width);
      const draw = name === "embedding" ? () => 0.02 * normal()
        : name.startsWith("norm") ? () => 1 : () => (2 * random() - 1) * reach;
      for (let i = 0; i < list.length; i++) list[i] = draw();
    }
  }

  return { size, parameters, gradient, begin, read, nats, learn, step, logits, maps: kept.map((a) => a.maps) };
}

// The program of the worker: it trains a model on chants and reports. A message brings `seed`; `exam`, the ids of the
// text that is looked at; `periods`, the fewest and most letters of a round; `steps`, `batch`, `rate` of the training;
// `every` how many steps it reports.
function chantWorker() {
  const letters = 26;
  // A row of different letters, repeated.
  const chant = (random, n, [shortest, most]) => {
    const order = Array.from({ length: letters }, (_, i) => i);
    const period = shortest + Math.floor(random() * (most - shortest + 1));
    for (let i = 0; i < period; i++) {
      const j = i + Math.floor(random() * (letters - i));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return Array.from({ length: n }, (_, t) => order[t % period]);
  };

  self.onmessage = ({ data: { seed, exam, periods, steps, batch, rate, every } }) => {
    const random = uniform(seed), model = chantModel();
    let losses = [];
    model.begin(random);
    for (let step = 0; step <= steps; step++) {
      if (step % every === 0) {
        model.read(exam);
        const chances = model.nats(exam).map((nats) => Math.exp(-nats));
        self.postMessage({ step, losses, chances, maps: model.maps.map((list) => Float32Array.from(list)) });
        losses = [];
      }
      if (step === steps) break;
      losses.push(model.learn(Array.from({ length: batch }, () => chant(random, exam.length, periods))));
      model.step(rate);
    }
  };
}
