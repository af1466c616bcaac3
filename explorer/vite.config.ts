import { defineConfig } from "vite";

/**
 * Bundles that travel inside the Python package, each one script and one style sheet, so that pages ask for nothing else:
 * `explorer` of pages by themselves, with `--mode server` that of the local server, which brings the playground, and with
 * `--mode play` the playground by itself.
 */
export default defineConfig(({ mode }) => {
  const name = mode === "server" || mode === "play" ? mode : "explorer";
  const entry = name === "explorer" ? "src/main.ts" : `src/${name}.ts`;
  return {
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      outDir: "../src/wengert/explorer/static",
      emptyOutDir: name === "explorer",
      target: "es2022",
      cssCodeSplit: false,
      modulePreload: false,
      reportCompressedSize: true,
      // Not Vite's library mode, which leaves white space in ES modules.
      rolldownOptions: {
        input: entry,
        preserveEntrySignatures: "strict",
        output: { format: "es", entryFileNames: `${name}.js`, assetFileNames: `${name}[extname]` },
      },
    },
  };
});
