// Examples of calls in a docstring, as `>>> add(2, b=3)`. Their values fill the form.

const CALL = /^ *>>> *(?:\w+ *= *)?(?:await +)?[\w.]+\((.*)\) *$/gm;
const TOKEN = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(?:True|False|None)\b/g;
const WORDS = { True: "true", False: "false", None: "null" };

/** The values by name of each call that has values only: texts, numbers, lists and objects. */
export function examplesOf(description, inputs) {
  const examples = [];
  for (const [, text] of description.matchAll(CALL)) {
    try {
      examples.push(valuesOf(text, inputs.map(({ name }) => name)));
    } catch {
      // It is code, and no value.
    }
  }
  return examples;
}

function valuesOf(text, names) {
  const values = {};
  for (const [index, part] of partsOf(text.replace(TOKEN, jsonOf)).entries()) {
    const [, name, value] = /^\s*(?:([A-Za-z_]\w*)\s*=)?(.*)$/s.exec(part);
    const meant = name ?? names[index];
    if (!names.includes(meant)) throw new Error(`no input ${meant}`);
    values[meant] = JSON.parse(value);
  }
  return values;
}

/** A literal of Python as JSON writes it. */
function jsonOf(token) {
  if (!token.startsWith("'")) return WORDS[token] ?? token;
  return `"${token.slice(1, -1).replaceAll("\\'", "'").replaceAll('"', '\\"')}"`;
}

/** The arguments of a call, which commas outside of texts, lists and objects divide. */
function partsOf(text) {
  const parts = [];
  let depth = 0;
  let part = "";
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|./gs)) {
    depth += "[{(".includes(token) ? 1 : "]})".includes(token) ? -1 : 0;
    if (token !== "," || depth > 0) {
      part += token;
    } else {
      parts.push(part);
      part = "";
    }
  }
  return part.trim() ? [...parts, part] : parts;
}
