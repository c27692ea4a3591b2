import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const WEB = import.meta.dirname;
const OUT = join(WEB, "..", "static");

/** The files of which the bundle is made, as paths with slashes; `tests/unit/provider/page/test_bundle.py` knows the same rule. */
function sources(): string[] {
  const found = readdirSync(join(WEB, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(WEB, join(entry.parentPath, entry.name)).split(sep).join("/"));
  return [...found, "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"].sort();
}

/** Write the digest of the sources beside the bundle, so that a stale bundle is noticed without Node. */
function recordSources(): Plugin {
  return {
    name: "record-sources",
    apply: "build",
    closeBundle() {
      const digest = createHash("sha256");
      for (const name of sources()) digest.update(`${name}\0`).update(readFileSync(join(WEB, name))).update("\0");
      writeFileSync(join(OUT, "sources.sha256"), `${digest.digest("hex")}\n`);
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [react(), recordSources()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
  },
});
