// Number fields, with sliders beside them.

// The number in a text field, or null while the text is not a number.
function readNumber(text) {
  const cleaned = text.trim().replace(/−/g, "-").replace(",", "."), value = Number(cleaned);
  return cleaned !== "" && Number.isFinite(value) ? value : null;
}

// The text of a number field: an exact decimal where there is one, else six figures.
const fieldText = (value) => String(Number(value.toPrecision(6)));

// A labeled number field. `onvalue` hears each valid edit; what is not a number, or not a `whole` one, or lies outside
// `min` and `max`, is marked and changes nothing, and the last good value comes back when the field is left.
// With `step`, the up and down keys change the value: by one step, with shift by ten. `text` makes a value's text.
function numberField(label, value, onvalue, attributes = {}) {
  const { min = -Infinity, max = Infinity, step, whole, text = whole ? String : fieldText, ...rest } = attributes;
  const read = () => {
    const number = readNumber(input.value);
    const valid = number !== null && number >= input.least && number <= input.most && (!whole || Number.isInteger(number));
    return valid ? number : null;
  };
  const input = h("input", {
    type: "text", inputmode: whole ? "numeric" : "decimal", class: "aw-number", "aria-label": label, value: text(value),
    ...rest,
    oninput: () => {
      const number = read();
      input.setAttribute("aria-invalid", String(number === null));
      if (number !== null) onvalue((input.good = number));
    },
    onchange: () => {
      if (whole || read() === null) input.value = text(input.good);
      input.setAttribute("aria-invalid", "false");
    },
    onkeydown: (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step || !direction) return;
      event.preventDefault();
      const moved = Number((input.good + direction * step * (event.shiftKey ? 10 : 1)).toPrecision(12));
      setNumber(input, clamp(moved, input.least, input.most));
      onvalue(input.good);
    },
  });
  return Object.assign(input, { good: value, least: min, most: max, text });
}

// Shows `value` in a number field, but leaves text that is being typed alone if it means the same number.
function setNumber(input, value) {
  input.good = value;
  input.setAttribute("aria-invalid", "false");
  if (readNumber(input.value) !== value) input.value = input.text(value);
}

// A number field and a slider for one number: `onvalue` hears it, `show(value, words)` shows it in both. `to` gives the
// slider's place for a number, `from` the number at a place.
function fieldAndSlider(name, label, onvalue, { field, slider, from = Number, to = Number }) {
  const number = numberField(label, field.min ?? 0, onvalue, { ...field, "data-field": name });
  const input = rangeInput(name, `${label}, slider`, slider, (place) => onvalue(from(place)));
  const show = (value, words = plain(value)) => {
    setNumber(number, value);
    input.value = to(value);
    input.setAttribute("aria-valuetext", words);
  };
  return { field: number, slider: input, show };
}
