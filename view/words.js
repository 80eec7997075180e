// Numbers and times as text, and elements made of text: nothing of the data is ever read as markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(made.style, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return made;
}

// Of thousands of numbers, which a function does not take as arguments.
export const least = (numbers) => numbers.reduce((one, other) => Math.min(one, other), Infinity);
export const most = (numbers) => numbers.reduce((one, other) => Math.max(one, other), -Infinity);

export const count = (number) => (number === undefined ? "" : number.toLocaleString("en-US"));

export function moment(ms) {
  return ms ? new Date(ms).toISOString().replace("T", " ") : "none";
}

export function clock(ms) {
  return new Date(ms).toISOString().slice(11, 23);
}

export function duration(ms) {
  if (ms === undefined) return "";
  if (Math.abs(ms) < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (Math.abs(seconds) < 120) return `${seconds.toFixed(1)} s`;
  const minutes = seconds / 60;
  return Math.abs(minutes) < 120 ? `${minutes.toFixed(1)} min` : `${(minutes / 60).toFixed(1)} h`;
}

export function bytes(number) {
  if (number === undefined) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = number;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at ? value.toFixed(1) : value} ${units[at]}`;
}

export function short(number) {
  const units = ["", "k", "M", "G"];
  let at = 0;
  let value = number;
  while (Math.abs(value) >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at ? Number(value.toPrecision(3)) : Number(value.toPrecision(6))}${units[at]}`;
}
