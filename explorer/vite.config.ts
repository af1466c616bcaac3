import { defineConfig } from "vite";
import { parts } from "./parts.plugin.ts";

/**
 * What travels inside the Python package: one bundle with one style sheet, `explorer`, which shows a small graph by
 * itself, and parts of it, for which it asks when they are needed (`parts.plugin.ts`).
 */
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [parts()],
  build: {
    outDir: "../src/wengert/explorer/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: true,
    // A library, so that what is imported later is left to the plugin.
    lib: { entry: { explorer: "src/main.ts" }, formats: ["es"], cssFileName: "explorer" },
    rolldownOptions: {
      preserveEntrySignatures: "allow-extension",
      output: {
        // Libraries keep their white space otherwise.
        minify: true,
        comments: false,
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        // All that the entry imports stands in it, also what parts share with it.
        codeSplitting: {
          groups: [
            { name: "bundle", tags: ["$initial"], priority: 1 },
            // A few lines each, which several parts share.
            { name: "common", test: /src\/(plot|engine\/(points|bowl)|scalar\/special|panels\/dialog|styles\/dialog)/, includeDependenciesRecursively: false },
          ],
        },
      },
    },
  },
});
