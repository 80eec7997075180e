// The lanes of the picture for the keyboard: up and down move through the components and the panels, and Enter goes to the
// next batch that a lane marks. They lie on the canvas, are seen only while they have the focus, and let the mouse through.

import { element } from "./words.js";

export class Lanes {
  constructor(frame, choose, chosen) {
    Object.assign(this, { choose, chosen });
    this.host = element("div");
    frame.append(this.host);
  }

  // A lane for each panel, or for each row that a panel has. `left` and `right` are the margins of the panels.
  arrange(panels, left, right) {
    const focused = this.all.indexOf(document.activeElement);
    this.host.replaceChildren(...panels.flatMap((panel) => {
      const lanes = panel.lanes ?? [{ name: panel.title, batches: [] }];
      const height = panel.height / lanes.length;
      return lanes.map((lane, at) => this.button(lane, {
        left: `${lanes.length > 1 ? 4 : left - 4}px`, right: `${right - 4}px`, top: `${panel.top + at * height}px`, height: `${height}px`,
      }));
    }));
    if (focused >= 0) this.all[Math.min(focused, this.all.length - 1)].focus();
  }

  get all() {
    return [...this.host.children];
  }

  button(lane, style) {
    const marks = [...new Set(lane.batches)].sort((one, other) => one - other);
    const said = marks.length ? `${lane.name}. Enter goes to the next` : lane.name;
    const next = () => {
      if (marks.length) this.choose(marks.find((at) => at > this.chosen()) ?? marks[0]);
    };
    return element("button", { type: "button", class: "lane", tabindex: "-1", "aria-label": said, onclick: next, style });
  }

  // To the next lane, or the one before; the first or the last if none has the focus.
  move(by) {
    const all = this.all;
    const at = all.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all[to]?.focus();
  }
}
