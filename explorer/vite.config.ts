import { defineConfig } from "vite";

// One script and one style sheet, which travel inside the Python package: pages made from them ask for nothing else.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/wengert/explorer/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: true,
    // Not Vite's library mode, which leaves white space in ES modules.
    rolldownOptions: {
      input: "src/main.ts",
      preserveEntrySignatures: "strict",
      output: { format: "es", entryFileNames: "explorer.js", assetFileNames: "explorer[extname]" },
    },
  },
});
