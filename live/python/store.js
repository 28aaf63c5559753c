// Answers, kept in this browser by exercise, each with the stub it was typed for. Nothing is sent anywhere.
const PREFIX = "attention-answer:", RECORD = "attention-tries";

// Private windows and full disks: what cannot be kept lives as long as the page.
const memory = new Map();
export let keeps = true;

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? memory.get(key) ?? null;
  } catch {
    return memory.get(key) ?? null;
  }
}

function write(key, value) {
  memory.set(key, value);
  try {
    localStorage.setItem(key, JSON.stringify(value));
    keeps = true;
  } catch {
    keeps = false;
  }
  return keeps;
}

// {text, stub, stem, revision, older}: older is what was typed for another stub.
export const answer = (name) => read(PREFIX + name);

// All exercises that were answered here: {name: {text, stub, stem}}.
export function everything() {
  const found = {}, keys = new Set(memory.keys());
  try {
    for (let i = 0; i < localStorage.length; i++) keys.add(localStorage.key(i));
  } catch {}
  for (const key of keys) {
    const name = isAnswer(key), kept = name && answer(name);
    if (kept?.stem && typeof kept.text === "string") found[name] = kept;
  }
  return found;
}

// Saves unless another tab has saved since; returns the new revision, or null.
export function save(name, { text, stub, stem, revision, older, force = false }) {
  const now = answer(name);
  if (!force && now && now.revision !== revision) return null;
  const next = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
  write(PREFIX + name, { text, stub, stem, revision: next, ...(older ? { older } : {}) });
  return next;
}

export const isAnswer = (key) => key?.startsWith(PREFIX) ? key.slice(PREFIX.length) : null;

// The same as {stem: {name: text}}.
export function answers() {
  const found = {};
  for (const [name, { stem, text }] of Object.entries(everything())) (found[stem] ??= {})[name] = text;
  return found;
}

// How often a check was asked, until the first right answer: {tries, minutes, right, points, maxPoints}.
export const record = (name) => (read(RECORD) ?? {})[name] ?? { tries: 0, minutes: 0, right: false };

export function note(name, changed) {
  const all = read(RECORD) ?? {};
  all[name] = { ...record(name), ...changed };
  write(RECORD, all);
  return all[name];
}
