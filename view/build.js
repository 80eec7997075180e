// Bundles the script of the picture into one file, and writes down the licences of what is in it: node build.js FOLDER

import { build } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const LICENCE = /^(licen[cs]e|notice|copying)(\.|-|$)/i;

const folder = process.argv[2];
if (!folder) {
  console.error("error: no folder is given\n  hint: node build.js FOLDER, or make view");
  process.exit(2);
}
const built = await build({
  entryPoints: ["main.js"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii", // the page says what its digest is, whoever copies it
  legalComments: "none", // licences.txt has all of them, whole
  metafile: true,
  write: false,
});
const script = built.outputFiles[0].text.trim();
if (/<\/script|<!--/i.test(script)) {
  console.error("error: the script holds what would end it inside of a page");
  process.exit(1);
}

const packages = new Set();
for (const input of Object.keys(built.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
const texts = [...packages].sort().map((name) => {
  const home = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  const files = readdirSync(home).filter((file) => LICENCE.test(file)).sort();
  if (!files.length) throw new Error(`${name} has no file with its licence`);
  const said = files.map((file) => readFileSync(join(home, file), "utf8").trim());
  return [`${name} ${version} (${license})`, ...said].join("\n\n");
});

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "view.js"), script);
writeFileSync(join(folder, "licences.txt"), `${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`);
console.log(`view: ${join(folder, "view.js")}, ${script.length} bytes, with ${[...packages].sort().join(", ")}`);
