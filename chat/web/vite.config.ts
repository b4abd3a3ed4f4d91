// Builds the page into dist/, which the chat server embeds. The server's content security policy has two
// consequences: nothing may be inlined as a data: URL (fonts), and no module-preload polyfill may be written into the
// HTML.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { FOUND, notices } from "./notices.ts";

const server = process.env["CHAT_SERVER"] ?? "http://127.0.0.1:3001";

export default defineConfig({
  plugins: [react(), notices()],
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    license: { fileName: FOUND },
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true, ws: true } } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}", "*.test.ts", "dev/*.test.mjs"],
    setupFiles: ["src/test-setup.ts"],
    // One jsdom for all files: creating one for each takes longer than the tests.
    isolate: false,
    maxWorkers: 1,
    // Only ends a test that hangs: a busy machine may need ten times as long as a quiet one.
    testTimeout: 60_000,
  },
});
