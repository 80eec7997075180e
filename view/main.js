// Fills the place that the page leaves for the picture of its run; the page says all that matters without it.

import { inFull } from "./chosen.js";
import { addButtons, lifeInFull, searchField } from "./follow.js";
import { Picture } from "./picture.js";
import { findingsOf, hasClock, readRun } from "./run.js";
import { element } from "./words.js";

async function show() {
  const host = document.getElementById("view");
  const missing = document.getElementById("view-missing");
  try {
    const run = await readRun(document.getElementById("run-data").content.textContent);
    if (!run.batches.length) {
      missing.textContent = "There is no picture: the evidence has no batch.";
      return;
    }
    host.hidden = false;
    fill(host, run);
    missing.remove();
    requestAnimationFrame(() => setTimeout(() => performance.mark("picture drawn"))); // once it has been painted
  } catch (error) {
    host.hidden = true;
    missing.textContent = `The picture could not be drawn: ${error}. All that it shows of batches is in the table below.`;
    throw error;
  }
}

function fill(host, run) {
  const bar = element("div", { class: "bar" });
  const beside = element("aside", { class: "chosen", "aria-live": "polite", "aria-label": "The chosen batch", tabindex: "0" });
  const left = element("div");
  host.append(bar, left, beside);
  const picture = new Picture(left, run, (at) => {
    const row = run.lives.rows[picture.followed];
    const again = row ? [element("p", {}, element("button", { type: "button", onclick: () => follow(picture.followed) }, `the life of ${row.name}`))] : [];
    beside.replaceChildren(...again, ...inFull(run, at));
  });
  const back = () => {
    picture.follow(-1);
    picture.choose(picture.chosen);
  };
  const follow = (row) => {
    picture.follow(row);
    beside.replaceChildren(...lifeInFull(run, row, follow, back));
    beside.scrollTop = 0;
  };
  if (hasClock(run)) {
    const choice = (text, byClock, checked) => element("label", {},
      element("input", { type: "radio", name: "axis", checked, onchange: () => { picture.draw(byClock); } }), ` ${text}`);
    bar.append(element("fieldset", { "aria-label": "What the axis shows" }, choice("by batch", false, true), choice("by wall clock (UTC)", true, false)));
  }
  const button = (text, name, act) => element("button", { type: "button", "aria-label": name, onclick: act }, text);
  bar.append(
    element("span", {}, button("−", "Zoom out", () => picture.zoom(2)), " ", button("+", "Zoom in", () => picture.zoom(0.5)), " ",
      button("all", "Show all of the run", () => picture.zoom(1e6))),
    run.lives.rows.length ? searchField(run, follow) : "",
    element("span", { class: "quiet" }, "Click a batch, or use the arrow keys (up and down: components and panels); Ctrl and the mouse wheel zoom, dragging moves."),
  );
  picture.draw(false);
  picture.choose(first(run));
  addButtons(run, follow);
  const shown = document.querySelector("table.life")?.dataset.finding;
  const followed = run.lives.findings.find((one) => String(one.finding) === shown);
  if (followed) follow(followed.rows[0]);
}

// The batch that is chosen at first: the first with a finding, else with a fault, else with rows that came.
function first(run) {
  const faulty = new Set(run.faults.filter((fault) => fault.injected).map((fault) => fault.batch));
  const asked = [
    (batch) => findingsOf(batch) > 0,
    (batch) => faulty.has(batch.batch),
    (batch) => (batch.joined ?? batch.out ?? 0) > 0,
  ];
  for (const wanted of asked) {
    const at = run.batches.findIndex(wanted);
    if (at >= 0) return at;
  }
  return 0;
}

show();
