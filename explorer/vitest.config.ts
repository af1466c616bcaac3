import { defineConfig, mergeConfig } from "vitest/config";
import viteConfig from "./vite.config.ts";

// A test compares the style sheet's colours with those that are drawn, so style sheets are read, not emptied.
// Properties of layouts are tried on a hundred graphs and more each, which takes longer than Vitest's five seconds on a busy machine.
export default mergeConfig(viteConfig, defineConfig({ test: { css: true, testTimeout: 60_000 } }));
