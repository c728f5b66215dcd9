// Bundles the page into src/gfs/dashboard/static. The first line of each file names the sources it was made of, so that
// a test can tell without Node whether the bundle is theirs.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const digest = createHash("sha256");
for (const name of ["build.mjs", "package-lock.json", ...readdirSync(`${here}src`).sort().map((file) => `src/${file}`)]) {
  digest.update(`${name}\0`).update(readFileSync(here + name)).update("\0");
}
const banner = `/* made of web/ by "make web": ${digest.digest("hex")} */`;
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.ts" },
  outdir: process.argv[2] ?? "../src/gfs/dashboard/static",
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: ["chrome109", "firefox115", "safari16.4"],
  banner: { js: banner, css: banner },
  legalComments: "inline",
  logLevel: "warning",
});
