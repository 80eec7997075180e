// Finds a row by its id, key or place, and shows its life: drawn in the picture, and step by step beside it.

import { count, element } from "./words.js";

const LISTED = 12;

// A field for an id or a key, with what it finds; `onRow` is called with the index of a row.
export function searchField(run, onRow) {
  const found = element("span", { class: "found", "aria-live": "polite" });
  const field = element("input", {
    type: "search", placeholder: "id, key or topic/partition/offset", "aria-label": "Find a row by its id, key or place",
    oninput: () => list(field.value.trim()),
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      found.querySelector("button")?.click();
    },
  });
  function list(text) {
    found.replaceChildren();
    if (!text) return;
    const rows = find(run, text);
    found.append(...rows.slice(0, LISTED).map((row) => button(run, row, onRow)));
    if (!rows.length) found.append("no row of this page has it");
    if (rows.length > LISTED) found.append(`and ${count(rows.length - LISTED)} more`);
  }
  return element("span", { class: "search" }, element("label", {}, "row ", field), found);
}

// The rows that have a text as id, key or place; else those that have it in one of them.
export function find(run, text) {
  const asked = text.toLowerCase();
  const texts = (row) => [row.name, row.key, row.place, ...row.key.split(", ")].map((one) => one.toLowerCase());
  const all = run.lives.rows.map((row, at) => [texts(row), at]);
  const same = all.filter(([of]) => of.includes(asked));
  const some = same.length ? same : all.filter(([of]) => of.some((one) => one.includes(asked)));
  return some.map(([, at]) => at);
}

function button(run, at, onRow, text = run.lives.rows[at].name) {
  return element("button", { type: "button", title: run.lives.rows[at].place, onclick: () => onRow(at) }, text);
}

// The life of a row as text; `onBack` shows the batch again.
export function lifeInFull(run, at, onRow, onBack) {
  const life = run.lives.rows[at];
  return [
    element("p", {}, element("button", { type: "button", onclick: onBack }, "back to the batch")),
    element("h3", {}, life.name),
    element("p", { class: "quiet" }, `${run.inputs[life.input].name}${life.key ? `, key ${life.key}` : ""}`),
    ...life.steps.flatMap((step) => [
      element("h4", { class: step.wrong ? "bad" : "" }, step.what),
      ...(step.expected ? [element("div", {}, element("span", { class: "quiet" }, "expected "), step.expected)] : []),
      ...(step.observed ? [element("div", {}, element("span", { class: "quiet" }, "observed "), step.observed)] : []),
    ]),
    ...(life.became === "followed" ? [] : couldMatch(run, life, onRow)),
  ].filter(Boolean);
}

function couldMatch(run, life, onRow) {
  return [
    element("h4", {}, `${run.inputs[1 - life.input].name} that could match`),
    ...life.candidates.map((one) => element("div", { class: "candidate" },
      one.row >= 0 ? button(run, one.row, onRow, one.name) : one.name, ` ${one.why}`)),
    life.candidates.length ? "" : element("div", {}, "none has its key"),
    life.more > 0 ? element("div", { class: "quiet" }, `and ${count(life.more)} more with its key`) : "",
  ];
}

// Buttons beside the examples of findings that show their row in the picture.
export function addButtons(run, onRow) {
  for (const table of document.querySelectorAll("table.life")) {
    const followed = run.lives.findings.find((one) => String(one.finding) === table.dataset.finding);
    if (!followed) continue;
    const show = (at) => {
      onRow(at);
      document.getElementById("run").scrollIntoView();
      document.querySelector("#view aside").focus({ preventScroll: true }); // what is said of the row is read next
    };
    table.parentElement.before(element("p", { class: "shows" }, "Show in the picture: ",
      ...followed.rows.flatMap((at) => [button(run, at, show), " "])));
  }
}
