import { expect, it } from "vitest";
import { linesOf } from "./Posture";

const hardened = { readonlyRootfs: true, capabilities: [], noNewPrivileges: true, seccomp: "sandboxd", user: "61003:61003", network: "none", runtime: "runc", unenforced: [] };

it("has nothing to warn of when all is applied", () => {
  expect(linesOf(hardened).every(({ good }) => good)).toBe(true);
});

it("warns of each thing that is not", () => {
  const open = { ...hardened, readonlyRootfs: false, capabilities: ["NET_RAW"], noNewPrivileges: false, seccomp: "unconfined", user: "0:0", unenforced: ["diskBytes"] };
  expect(linesOf(open).filter(({ good }) => !good)).toHaveLength(6);
});
