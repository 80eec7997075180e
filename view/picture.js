// Draws the panels below each other on one axis, zoomed together, with a line at the pointer and a band at the chosen batch.

import { CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { DataZoomComponent, GridComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer } from "echarts/renderers";

import { inShort } from "./chosen.js";
import { Lanes } from "./keyboard.js";
import { panelsOf } from "./panels.js";
import { Axis } from "./run.js";
import { clock, element } from "./words.js";

use([CustomChart, LineChart, ScatterChart, DataZoomComponent, GridComponent, CanvasRenderer, LabelLayout]);

const CAPTION = 24;
const GAP = 12;
const LEFT = 92;
const RIGHT = 66;
const BOTTOM = 60;

export class Picture {
  constructor(host, run, onChoose) {
    this.run = run;
    this.canvas = element("div", { class: "canvas" });
    this.captions = element("div");
    this.band = element("div", { style: { position: "absolute", background: "var(--chosen)", pointerEvents: "none", top: "0" } });
    this.line = element("div", { style: { position: "absolute", width: "1px", background: "var(--quiet)", pointerEvents: "none", top: "0", display: "none" } });
    this.hint = element("div", { class: "hint chosen", style: { position: "absolute", pointerEvents: "none", display: "none", zIndex: "5", overflow: "visible" } });
    this.frame = element("div", {
      class: "picture", tabindex: "0", role: "group",
      "aria-label": "The run, batch by batch. Left and right choose a batch, Home and End the first and the last; up and down go through the lanes, Enter to what a lane marks; plus and minus zoom.",
    }, this.band, this.canvas, this.line, this.captions, this.hint);
    this.lanes = new Lanes(this.frame, (at) => this.choose(at), () => this.chosen);
    host.append(this.frame);
    this.onChoose = onChoose;
    this.chosen = -1;
    this.zoomed = [0, 100];
    this.followed = -1;
    new ResizeObserver(() => this.resize()).observe(this.frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(this.axis.byClock));
    this.frame.addEventListener("keydown", (event) => this.typed(event));
    this.frame.addEventListener("mouseleave", () => this.pointAt(-1));
  }

  draw(byClock) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    if (!this.axis || this.axis.byClock !== byClock) this.zoomed = [0, 100];
    this.axis = new Axis(this.run, byClock);
    this.panels = panelsOf(this.run, this.axis, colour, this.run.lives.rows[this.followed]);
    this.captions.replaceChildren(...this.panels.map(captionOf));
    this.arrange();
    this.lanes.arrange(this.panels, LEFT, RIGHT);
    this.canvas.style.height = `${this.height + BOTTOM}px`;
    this.chart?.dispose();
    this.chart = init(this.canvas, null, { renderer: "canvas" });
    this.chart.setOption(optionOf(this.panels, this.axis, colour, this.zoomed));
    this.chart.on("datazoom", () => {
      const { start, end } = this.chart.getOption().dataZoom[0];
      this.zoomed = [start, end];
      this.place();
    });
    const surface = this.chart.getZr();
    surface.on("mousemove", (event) => this.pointAt(this.batchAt(event), event));
    surface.on("click", (event) => {
      const at = this.batchAt(event);
      if (at >= 0) this.choose(at);
    });
    this.place();
  }

  // Puts each panel below the lines that its caption takes.
  arrange() {
    this.captionHeights = this.heightsOfCaptions();
    let top = 4;
    this.panels.forEach((panel, at) => {
      this.captions.children[at].style.top = `${top + 2}px`;
      panel.top = top + Math.max(CAPTION, this.captionHeights[at] + 5);
      top = panel.top + panel.height + GAP;
    });
    this.height = top;
  }

  heightsOfCaptions() {
    return [...this.captions.children].map((caption) => caption.offsetHeight);
  }

  batchAt(event) {
    const inside = event.offsetY < this.height && event.offsetX > LEFT && event.offsetX < this.canvas.clientWidth - RIGHT;
    return inside ? this.axis.batchAt(this.chart.convertFromPixel({ xAxisIndex: 0 }, event.offsetX)) : -1;
  }

  choose(at) {
    this.chosen = at;
    this.place();
    this.onChoose(at);
  }

  // Draws the life of a row; -1 takes it away.
  follow(at) {
    this.followed = at;
    this.draw(this.axis.byClock);
  }

  // Puts the band at the chosen batch.
  place() {
    const span = this.axis.spans[this.chosen];
    if (!span) {
      this.band.style.display = "none";
      return;
    }
    const edges = [LEFT, this.canvas.clientWidth - RIGHT];
    const [left, right] = span.map((place) => Math.min(Math.max(this.chart.convertToPixel({ xAxisIndex: 0 }, place), edges[0]), edges[1]));
    Object.assign(this.band.style, {
      display: right > left ? "block" : "none", left: `${left}px`, width: `${Math.max(right - left, 2)}px`, height: `${this.height}px`,
    });
  }

  pointAt(at, event) {
    const shown = at >= 0 ? "block" : "none";
    this.line.style.display = shown;
    this.hint.style.display = shown;
    if (at < 0) return;
    Object.assign(this.line.style, { left: `${event.offsetX}px`, height: `${this.height}px` });
    this.hint.replaceChildren(...inShort(this.run, at));
    const width = this.hint.offsetWidth;
    const left = event.offsetX + 16 + width > this.canvas.clientWidth ? event.offsetX - 16 - width : event.offsetX + 16;
    Object.assign(this.hint.style, { left: `${Math.max(left, 0)}px`, top: `${Math.max(event.offsetY - 20, 0)}px` });
  }

  typed(event) {
    const last = this.run.batches.length - 1;
    const to = { ArrowRight: this.chosen + 1, ArrowLeft: Math.max(this.chosen, 1) - 1, Home: 0, End: last }[event.key];
    if (to !== undefined) this.choose(Math.min(to, last));
    else if (event.key === "ArrowDown") this.lanes.move(1);
    else if (event.key === "ArrowUp") this.lanes.move(-1);
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else return;
    event.preventDefault();
  }

  // Shows a part of the axis that is so many times as long, around the chosen batch or the middle.
  zoom(times) {
    const [start, end] = this.zoomed;
    const span = this.axis.spans[this.chosen];
    const whole = this.axis.end - this.axis.begin;
    const middle = span ? (100 * ((span[0] + span[1]) / 2 - this.axis.begin)) / whole : (start + end) / 2;
    const half = Math.min(((end - start) * times) / 2, 50);
    const begin = Math.min(Math.max(middle - half, 0), 100 - 2 * half);
    this.chart.dispatchAction({ type: "dataZoom", start: begin, end: begin + 2 * half });
  }

  resize() {
    if (!this.chart) return;
    if (String(this.heightsOfCaptions()) !== String(this.captionHeights)) {
      this.draw(this.axis.byClock);
      return;
    }
    this.chart.resize();
    this.place();
  }
}

function captionOf(panel) {
  const keys = panel.keys.map((one) => element("span", { class: "key" }, swatchOf(one), one.name));
  return element("div", { class: "caption" }, element("b", {}, panel.title), ...keys);
}

// A box, a line, or the sign of a mark.
function swatchOf({ colour, kind }) {
  if (kind && kind !== "line" && kind !== "dashed") return element("span", { style: { color: colour }, "aria-hidden": "true" }, kind);
  const style = kind ? { borderTopColor: colour } : { background: colour };
  return element("span", { class: `swatch ${kind}`.trim(), style });
}

function optionOf(panels, axis, colour, [start, end]) {
  const quiet = { color: colour("--quiet"), fontSize: 11 };
  const lines = { lineStyle: { color: colour("--line") } };
  const second = panels.findIndex((panel) => panel.second);
  const yAxes = panels.map((panel, gridIndex) => ({
    ...panel.yAxis, gridIndex, axisLine: { show: false }, axisTick: { show: false },
    splitLine: { show: true, ...lines, ...panel.yAxis.splitLine }, axisLabel: { ...quiet, hideOverlap: true, ...panel.yAxis.axisLabel },
  }));
  if (second >= 0) {
    const panel = panels[second].second;
    yAxes.push({ ...panel, gridIndex: second, position: "right", axisLabel: { ...quiet, ...panel.axisLabel } });
  }
  return {
    animation: false, useUTC: true, backgroundColor: "transparent",
    grid: panels.map((panel) => ({ outerBoundsMode: "none", left: LEFT, right: RIGHT, top: panel.top, height: panel.height })),
    xAxis: panels.map((_, gridIndex) => ({
      ...xAxisOf(axis, quiet), gridIndex, ...lines, axisLine: { show: true, ...lines, onZero: false },
      axisLabel: { ...xAxisOf(axis, quiet).axisLabel, show: gridIndex === panels.length - 1 },
      name: gridIndex === panels.length - 1 ? xAxisOf(axis, quiet).name : "",
      axisTick: { show: gridIndex === panels.length - 1 }, splitLine: { show: false },
    })),
    yAxis: yAxes,
    dataZoom: [
      { type: "inside", xAxisIndex: "all", filterMode: "none", start, end, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
      {
        type: "slider", xAxisIndex: "all", filterMode: "none", start, end, height: 22, bottom: 10, left: LEFT, right: RIGHT,
        showDataShadow: false, showDetail: false, borderColor: colour("--line"), fillerColor: colour("--chosen"),
      },
    ],
    series: panels.flatMap((panel, at) => panel.series.map(({ onSecond, ...series }) => ({
      silent: true, ...series, itemStyle: { opacity: 1, ...series.itemStyle }, xAxisIndex: at, yAxisIndex: onSecond ? panels.length : at,
    }))),
  };
}

function xAxisOf(axis, label) {
  if (axis.byClock) {
    return { type: "time", name: "UTC", nameTextStyle: label, nameGap: 8, min: axis.begin, max: axis.end, axisLabel: { ...label, hideOverlap: true, formatter: (ms) => clock(ms).slice(0, 8) } };
  }
  const names = axis.run.batches.map((batch) => String(batch.batch));
  return {
    type: "value", min: axis.begin, max: axis.end, minInterval: 1,
    name: "batch", nameTextStyle: label, nameGap: 8,
    axisLabel: { ...label, hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (at) => names[at] ?? "" },
  };
}
