import { beforeEach, describe, expect, it, vi } from "vitest";
import { takeTokenFromAddress } from "./fragment";
import { readToken, writeToken } from "./storage";

const SESSION = "remcochat:lanAdminToken:session";
const BROWSER = "remcochat:lanAdminToken";

beforeEach(() => {
  sessionStorage.clear();
  localStorage.clear();
  history.replaceState(null, "", "/");
});

describe("the LAN token", () => {
  it("is stored for the tab only, trimmed", () => {
    writeToken("  secret ", false);
    expect([sessionStorage.getItem(SESSION), localStorage.getItem(BROWSER)]).toEqual(["secret", null]);
  });
  it("moves to the browser's storage if it is to be remembered", () => {
    writeToken("secret", false);
    writeToken("secret", true);
    expect([sessionStorage.getItem(SESSION), localStorage.getItem(BROWSER)]).toEqual([null, "secret"]);
    expect(readToken()).toEqual({ token: "secret", remembered: true });
  });
  it("is read from the tab's storage first", () => {
    localStorage.setItem(BROWSER, "old");
    sessionStorage.setItem(SESSION, "new");
    expect(readToken()).toEqual({ token: "new", remembered: false });
  });
  it("is removed from both stores when it is empty", () => {
    localStorage.setItem(BROWSER, "a");
    sessionStorage.setItem(SESSION, "b");
    writeToken("  ", true);
    expect(readToken()).toEqual({ token: "", remembered: false });
  });
});

describe("without browser storage", () => {
  it("the token lasts as long as the page", () => {
    const refuse = () => {
      throw new DOMException("Access is denied for this document.", "SecurityError");
    };
    const refused = [vi.spyOn(window, "sessionStorage", "get").mockImplementation(refuse), vi.spyOn(window, "localStorage", "get").mockImplementation(refuse)];
    try {
      expect(readToken()).toEqual({ token: "", remembered: false });
      history.replaceState(null, "", "/#token=from-link");
      takeTokenFromAddress();
      expect(readToken()).toEqual({ token: "from-link", remembered: false });
      writeToken("", false);
      expect(readToken().token).toBe("");
    } finally {
      refused.forEach((one) => one.mockRestore());
    }
  });
});

describe("a token in the address", () => {
  it("is stored for the tab and removed, and the rest of the fragment is kept", () => {
    history.replaceState(null, "", "/c/abc?x=1#token=from-link&tab=2");
    takeTokenFromAddress();
    expect(readToken()).toEqual({ token: "from-link", remembered: false });
    expect(location.pathname + location.search + location.hash).toBe("/c/abc?x=1#tab=2");
  });
  it("is removed without any effect if it is empty", () => {
    writeToken("kept", false);
    history.replaceState(null, "", "/#token=");
    takeTokenFromAddress();
    expect(readToken().token).toBe("kept");
    expect(location.hash).toBe("");
  });
});
