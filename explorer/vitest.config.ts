import { defineConfig, mergeConfig } from "vitest/config";
import viteConfig from "./vite.config.ts";

// A test compares the style sheet's colours with those that are drawn, so style sheets are read, not emptied.
export default defineConfig((env) => mergeConfig(viteConfig(env), { test: { css: true } }));
