// The engine in Node, for the tests: the model's pieces from a folder, and numbers back as a file.

import { readFileSync, writeFileSync } from "node:fs";
import { LanguageModel } from "../../live/engine/model.js";
import { Tokenizer } from "../../live/engine/tokenizer.js";

export * from "../../live/engine/linear.js";
export * from "../../live/engine/model.js";
export * from "../../live/engine/sample.js";
export * from "../../live/engine/tokenizer.js";

export const kernel = readFileSync(new URL("../../live/engine/kernel.wasm", import.meta.url));

export function opened(folder, simd = true) {
  const read = (name) => readFileSync(`${folder}/${name}`), manifest = JSON.parse(read("manifest.json"));
  const model = new LanguageModel(manifest, simd ? kernel : null);
  for (const kind of ["layers", "embeddings"]) manifest[kind].forEach(({ file }, i) => model.put(kind, i, read(file)));
  model.put("ends", 0, read(manifest.ends.file));
  return { model, tokenizer: new Tokenizer(JSON.parse(read(manifest.tokenizer.file))) };
}

// (tokens, vocabulary) of a text that is read in one piece, as if it were new.
export function logitsOf(model, ids) {
  model.reset();
  model.read(ids);
  return model.logits(ids.map((_, position) => [model.layers.length, position]));
}

export function save(path, tables) {
  writeFileSync(path, Buffer.concat(tables.map((table) => Buffer.from(Float32Array.from(table).buffer))));
}
