import { expect, it } from "vitest";
import { texts } from "../texts";
import { linesOf } from "./Posture";

const hardened = { readonlyRootfs: true, capabilities: [], noNewPrivileges: true, seccomp: "sandboxd", user: "61003:61003", network: "none", runtime: "runc", unenforced: [] };

it("shows no warning if everything is applied", () => {
  expect(linesOf(hardened, "default").every(({ good }) => good)).toBe(true);
});

it("warns about each missing measure", () => {
  const open = { ...hardened, readonlyRootfs: false, capabilities: ["NET_RAW"], noNewPrivileges: false, seccomp: "unconfined", user: "0:0", unenforced: ["diskBytes"] };
  expect(linesOf(open, "none").filter(({ good }) => !good)).toHaveLength(6);
});

it("shows the policy, and not the container's missing interface", () => {
  const network = (mode: Parameters<typeof linesOf>[1]) => linesOf(hardened, mode).filter(({ text }) => text.startsWith("Network"));
  for (const mode of ["default", "allowlist", "none", "open"] as const) {
    expect(network(mode)).toEqual([{ good: mode !== "open", text: texts.session.networks[mode] }]);
  }
  expect(network("default")).not.toContainEqual({ good: true, text: "Network: none" });
});
