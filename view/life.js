// The panels of one row's life, on the axis of the run: its time, the times that match it as a band, the rows that it could
// have been joined with, when it was in the state, and where its output rows came. Where something was decided by a little, a
// second panel shows that place close up.

import { boxes, inputColour, key, steps } from "./panels.js";
import { clock, duration } from "./words.js";

const MADE = 8; // so many output rows are drawn, wrong ones first
const CLOSE = 0.02; // a distance is shown close up if it is a smaller part of the panel

export function lifePanels(run, axis, colour, life) {
  if (!life || life.time_us === undefined) return [];
  const drawn = new DrawnLife(run, axis, colour, life);
  return [drawn.whole(), drawn.closeUp(), drawn.written()].filter(Boolean);
}

class DrawnLife {
  constructor(run, axis, colour, life) {
    Object.assign(this, { run, axis, colour, life });
    this.ms = life.time_us / 1000;
    this.others = life.candidates.map((one) => ({ ...one, life: run.lives.rows[one.row] }))
      .filter((one) => one.life && one.life.time_us !== undefined && one.life.batch !== undefined);
    this.limits = this.limitsOf();
    this.other = run.inputs[1 - life.input];
  }

  limitsOf() {
    const { life, ms } = this;
    const ends = [life.earliest_us, life.latest_us].filter((us) => us !== undefined).map((us) => us / 1000);
    const reach = Math.max(...ends.map((end) => Math.abs(end - ms)), 1000);
    const near = this.others.map((one) => one.life.time_us / 1000).filter((one) => Math.abs(one - ms) <= 2.5 * reach);
    const late = [life, ...this.others.map((one) => one.life)].filter((one) => one.became === "late").map((one) => one.late_ms)
      .filter((one) => Math.abs(one - ms) <= 2.5 * reach);
    const times = [ms, ...ends, ...near, ...late];
    const [low, high] = [Math.min(...times), Math.max(...times)];
    const edge = Math.max((high - low) * 0.14, 5);
    this.step = nice([low - edge, high + edge]);
    return [Math.floor((low - edge) / this.step) * this.step, Math.ceil((high + edge) / this.step) * this.step];
  }

  place(batch) {
    const at = this.run.batches.findIndex((one) => one.batch === batch);
    return at < 0 ? undefined : this.axis.spans[at];
  }

  middle(batch) {
    const span = this.place(batch);
    return span && (span[0] + span[1]) / 2;
  }

  // Which side of a mark has room for its label.
  side(batch) {
    const at = this.middle(batch);
    return at === undefined || at < this.axis.begin + (this.axis.end - this.axis.begin) * 0.72 ? "right" : "left";
  }

  // Whether a candidate is so close to the line of the row that its label would lie on it.
  isNear(one) {
    return Math.abs(one.life.time_us / 1000 - this.ms) < (this.limits[1] - this.limits[0]) * 0.08;
  }

  // Whether a row that matches did not meet this one: then the state watermark of its side says why.
  get missed() {
    return this.others.some((one) => !one.matches && !one.outside_us && one.life.became === "accepted");
  }

  ownSide() {
    return this.middle(this.life.batch) < this.axis.begin + (this.axis.end - this.axis.begin) * 0.15 ? "top" : "left";
  }

  // From the batch that read the row to the one that evicted it.
  lasts() {
    const begin = this.place(this.life.batch) ?? [this.axis.begin, this.axis.begin];
    const end = this.place(this.life.removed) ?? (this.life.stored === undefined ? begin : [this.axis.end, this.axis.end]);
    return [begin[0], Math.max(end[1], begin[1])];
  }

  // Up to its eviction a row meets partners: those that are read while it is in the state, and those that were there before.
  bands(limits) {
    const { axis, colour } = this;
    const [begin, end] = this.lasts();
    const box = this.band(limits);
    return [
      boxes(box.map((span) => [axis.begin, begin, ...span]), colour("--band-before")),
      boxes(box.map((span) => [begin, end, ...span]), colour("--band")),
    ];
  }

  band([low, high]) {
    const { life } = this;
    const from = Math.max(life.earliest_us === undefined ? low : life.earliest_us / 1000, low);
    const to = Math.min(life.latest_us === undefined ? high : life.latest_us / 1000, high);
    return to >= from ? [[from, to]] : [];
  }

  whole() {
    const { life, colour, run, axis, ms, other } = this;
    const mine = inputColour(colour, life.input);
    return {
      title: `The life of ${life.name}`,
      keys: [
        key(`times of ${other.name} that match`, colour("--band")),
        key("in the state", mine, "line"),
        key("late watermark", colour("--watermark"), "dashed"),
        key(`state watermark of ${run.inputs[life.input].name}`, colour("--state"), "line"),
        ...(this.missed ? [key(`state watermark of ${other.name}`, inputColour(colour, 1 - life.input), "dashed")] : []),
      ],
      height: 210,
      yAxis: { type: "value", min: this.limits[0], max: this.limits[1], interval: this.step, axisLabel: { formatter: clockLabel(this.limits), showMaxLabel: false } },
      series: [
        ...this.bands(this.limits),
        steps(axis, run, (batch) => batch.late_watermark_ms || null, { color: colour("--watermark"), width: 1.3, type: "dashed" }),
        steps(axis, run, (batch) => batch.inputs[life.input].state_ms || null, { color: colour("--state"), width: 1.3 }),
        ...(this.missed ? [steps(axis, run, (batch) => batch.inputs[1 - life.input].state_ms || null, { color: inputColour(colour, 1 - life.input), width: 1.5, type: "dashed" })] : []),
        this.inState(mine),
        this.candidates(),
        points([[this.middle(life.batch), ms]], "circle", 13, mine, `${life.name}${saidOf(life)}`, colour, this.ownSide()),
        ...this.evicted(mine),
      ],
    };
  }

  inState(mine) {
    const { life, ms } = this;
    const from = this.middle(life.stored);
    const to = this.place(life.removed)?.[1] ?? this.axis.end;
    const data = from === undefined ? [] : [[from, ms], [to, ms]];
    return { type: "line", data, showSymbol: false, lineStyle: { color: mine, width: 3 }, itemStyle: { color: mine }, z: 3 };
  }

  candidates() {
    const { colour, life } = this;
    const theirs = inputColour(colour, 1 - life.input);
    const data = this.others.map((one) => ({
      value: [this.middle(one.batch), one.life.time_us / 1000],
      name: `${one.name}: ${inBrief(one.why)}`,
      label: { position: this.isNear(one) ? "top" : this.side(one.batch) },
      symbolOffset: [one.batch === life.batch ? 17 : 0, 0], // beside the row, where one batch read both
      itemStyle: one.matches ? { color: theirs } : { color: colour("--paper"), borderColor: theirs, borderWidth: 2 },
    })).filter((one) => one.value[0] !== undefined);
    return labelled({ type: "scatter", data, symbol: "circle", symbolSize: 11, z: 4, itemStyle: { color: theirs } }, colour, "right");
  }

  evicted(mine) {
    const { life, ms, colour } = this;
    const at = this.place(life.removed)?.[1]; // a batch evicts when it has joined
    if (at === undefined || life.evicted_ms === undefined) return [];
    const side = this.side(life.removed) === "left" ? "bottom" : "right";
    return [points([[at, ms]], CROSS, 11, mine, `evicted by batch ${life.removed}`, colour, side)];
  }

  // A line for each output row that is made of it: where it came, and where it was due and did not.
  written() {
    const { life, colour } = this;
    const made = [...life.made].sort((one, other) => other.wrong - one.wrong).slice(0, MADE);
    if (!made.length) return undefined;
    const came = [];
    const missing = [];
    made.forEach((one, row) => {
      const tone = one.wrong ? colour("--invalid") : colour("--joined");
      const batches = one.came.map((record) => record.batch);
      for (const batch of new Set(batches)) {
        const often = batches.filter((other) => other === batch).length;
        const says = one.due === undefined ? "came; no such row is due" : one.due !== batch ? "came, and is due elsewhere" : often > 1 ? `came ${often} times` : "came";
        came.push({ value: [this.middle(batch), row], name: says, itemStyle: { color: tone }, label: { position: this.side(batch) } });
      }
      if (one.due !== undefined && !batches.includes(one.due)) {
        const says = batches.length ? "due" : "due, and never came";
        missing.push({ value: [this.middle(one.due), row], name: says, itemStyle: { color: colour("--paper"), borderColor: tone, borderWidth: 2 }, label: { position: this.side(one.due) } });
      }
    });
    const mark = { type: "scatter", symbol: "diamond", symbolSize: 13, z: 5 };
    const there = (data) => data.filter((one) => one.value[0] !== undefined);
    return {
      title: `Rows out that ${life.name} is a part of`,
      keys: [],
      height: 22 * made.length + 4,
      yAxis: {
        type: "value", min: -0.5, max: made.length - 0.5, inverse: true, interval: 1, splitLine: { show: false }, axisTick: { show: false },
        axisLabel: { formatter: (at) => shortened(made[at]?.name ?? ""), customValues: made.map((_, at) => at) },
      },
      series: [labelled({ ...mark, data: there(came) }, colour, "right"), labelled({ ...mark, data: there(missing) }, colour, "right")],
    };
  }

  // What was decided by the least, if that is too little to be seen.
  closeUp() {
    const { life, colour } = this;
    const [low, high] = this.limits;
    const found = this.others.filter((one) => one.outside_us).map((one) => ({
      gap: Math.abs(one.outside_us) / 1000, edge: one.life.time_us / 1000 - one.outside_us / 1000, what: "the end of the bound",
    }));
    const lately = [life, ...this.others.map((one) => one.life)].filter((one) => one.late_ms && one.became !== "filtered")
      .map((one) => ({ gap: Math.abs(one.late_ms - one.time_us / 1000), edge: one.late_ms, what: "the late watermark" }));
    const best = [...found, ...lately].sort((one, other) => one.gap - other.gap)[0];
    if (!best || best.gap > (high - low) * CLOSE) return undefined;
    const reach = Math.max(best.gap * 3, 0.003);
    const limits = [best.edge - reach, best.edge + reach];
    const inside = (us) => us / 1000 >= limits[0] && us / 1000 <= limits[1];
    const mine = inputColour(colour, life.input);
    return {
      title: `Close up: ${best.gap < 1000 ? `${Number(best.gap.toPrecision(6))} ms` : duration(best.gap)} from ${best.what}`,
      keys: [],
      height: 96,
      yAxis: {
        type: "value", min: limits[0], max: limits[1], interval: reach / 1.5,
        axisLabel: { formatter: (at) => clock(at), customValues: [best.edge - best.gap, best.edge, best.edge + best.gap] },
      },
      series: [
        ...this.bands(limits),
        steps(this.axis, this.run, (batch) => batch.late_watermark_ms || null, { color: colour("--watermark"), width: 1.3, type: "dashed" }),
        { ...this.candidates(), data: this.candidates().data.filter((one) => inside(one.value[1] * 1000)) },
        ...(inside(life.time_us) ? [this.inState(mine), points([[this.middle(life.batch), this.ms]], "circle", 13, mine, `${life.name}${saidOf(life)}`, colour, this.ownSide())] : []),
      ],
    };
  }
}

const CROSS = "path://M0,1L1,0L5,4L9,0L10,1L6,5L10,9L9,10L5,6L1,10L0,9L4,5Z";

function shortened(text) {
  const name = text.replace(/^the row /, "").replace(/^the /, "");
  return name.length > 15 ? `${name.slice(0, 14)}…` : name;
}

const saidOf = (life) => (life.became === "accepted" ? "" : `: ${life.became}`);

const inBrief = (why) => why.split(/[:;]/)[0].replace(/^it /, "");

// A step of the axis that a clock has, so that there are some four of it.
function nice([low, high]) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000];
  return steps.find((step) => (high - low) / step <= 5) ?? (high - low) / 4;
}

function clockLabel([low, high]) {
  return (ms) => clock(ms).slice(0, high - low < 10_000 ? 12 : 8);
}

function points(data, symbol, size, tone, name, colour, side, full = true) {
  const shown = data.filter((one) => one[0] !== undefined).map((value) => ({ value, name }));
  const style = full ? { color: tone } : { color: colour("--paper"), borderColor: tone, borderWidth: 2 };
  return labelled({ type: "scatter", data: shown, symbol, symbolSize: size, z: 5, itemStyle: style }, colour, side);
}

// A label beside each point; labels that would lie on each other are moved apart.
function labelled(series, colour, side) {
  return {
    ...series,
    label: {
      show: true, position: side, formatter: (mark) => mark.name, color: colour("--ink"), fontSize: 11,
      width: 260, overflow: "truncate", textBorderColor: colour("--paper"), textBorderWidth: 3,
    },
    labelLayout: { moveOverlap: "shiftY" },
  };
}
