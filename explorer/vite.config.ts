import { defineConfig } from "vite";

/**
 * Bundles that travel inside the Python package, each one script and one style sheet, so that pages ask for nothing else:
 * `explorer` of pages by themselves, and with `--mode server` that of the local server, which brings the playground.
 */
export default defineConfig(({ mode }) => {
  const [entry, name] = mode === "server" ? ["src/server.ts", "server"] : ["src/main.ts", "explorer"];
  return {
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      outDir: "../src/wengert/explorer/static",
      emptyOutDir: mode !== "server",
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
