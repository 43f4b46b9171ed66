// Builds the pages' scripts; with --check it only says whether the committed ones are their build.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const ENTRIES = { "report.js": "src/main.js", "charts.js": "src/embed.js" };
const OUT = "../src/timeroof/views/assets/scripts/";

async function built(entry) {
  const result = await build({
    entryPoints: [here(entry)], bundle: true, write: false, format: "iife", target: "es2022", charset: "utf8",
    minifySyntax: true, minifyWhitespace: true, minifyIdentifiers: true, legalComments: "none", treeShaking: true, logLevel: "warning",
  });
  return result.outputFiles[0].text;
}

let stale = false;
for (const [name, entry] of Object.entries(ENTRIES)) {
  const text = await built(entry);
  const path = here(OUT + name);
  if (!process.argv.includes("--check")) await writeFile(path, text);
  else if (await readFile(path, "utf8").catch(() => "") !== text) {
    console.error(`${name} is not the build of its sources: run 'npm run build' in web/ and commit it`);
    stale = true;
  }
}
process.exitCode = stale ? 1 : 0;
