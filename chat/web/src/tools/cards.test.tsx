import { fireEvent, render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { exitMeaning, exitTone } from "./exit";
import { bashOutput, isFinished, RUNNING, type ToolCall, webAddress } from "./part";
import { ToolView } from "./ToolView";

const call = (change: Partial<ToolCall>): ToolCall => ({ id: "1", name: "bash", input: { command: "ls" }, output: undefined, error: null, calling: false, ...change });
const output = (change: object) => ({ stdout: "", stderr: "", exitCode: 0, ...change });

function show(change: Partial<ToolCall>, live = false, onStop: (() => void) | null = null) {
  return render(<ToolView call={call(change)} live={live} latest progress={null} onStop={onStop} />).container;
}

describe("a bash card", () => {
  it("is running while the code is -1 and the answer arrives, and can be stopped", () => {
    const stop = vi.fn();
    show({ output: output({ exitCode: RUNNING, stdout: "so far" }) }, true, stop);
    expect(screen.getByTestId("tool:running")).toBeTruthy();
    expect(screen.queryByTestId("tool:exit")).toBeNull();
    expect(screen.getByTestId("tool:stdout").textContent).toBe("so far");
    fireEvent.click(screen.getByTestId("tool:stop"));
    expect(stop).toHaveBeenCalledOnce();
  });
  it("is not shown as running if it never ended", () => {
    show({ output: output({ exitCode: RUNNING }) });
    expect(screen.queryByTestId("tool:running")).toBeNull();
    expect(screen.getByText("stopped")).toBeTruthy();
  });
  it("shows its exit code and what it means", () => {
    show({ output: output({ exitCode: 124 }) });
    expect(screen.getByTestId("tool:exit").textContent).toBe("exit 124");
    expect(screen.getByText(/took longer than allowed \(30 s\)/)).toBeTruthy();
  });
  it("shows how much is missing, per stream", () => {
    show({ output: output({ stdout: "tail", stdoutTruncatedChars: 12_345, stderr: "e", stderrTruncatedChars: 1 }) });
    expect(screen.getAllByTestId("tool:truncated").map((one) => one.textContent)).toEqual(["12,345 earlier characters not kept", "1 earlier character not kept"]);
  });
  it("keeps the displayed output when the tool fails", () => {
    const part = { id: "kept", output: output({ exitCode: RUNNING, stdout: "so far" }) };
    const { rerender } = render(<ToolView call={call(part)} live latest progress={null} onStop={null} />);
    rerender(<ToolView call={call({ id: "kept", error: "The sandbox stopped." })} live latest progress={null} onStop={null} />);
    expect(screen.getByRole("alert").textContent).toBe("The sandbox stopped.");
    expect(screen.getByTestId("tool:stdout").textContent).toBe("so far");
    expect(screen.queryByTestId("tool:running")).toBeNull();
  });
  it("can collapse each stream, and shows which one is empty", () => {
    show({ output: output({ stdout: "out" }) });
    expect(screen.getByText("(empty)").textContent).toBe("stderr (empty)");
    fireEvent.click(screen.getByLabelText("Hide stdout"));
    expect(screen.getByTestId("tool:stdout").closest("[hidden]")).not.toBeNull();
  });
  it("shows a failure of the tool itself", () => {
    show({ error: "The sandbox stopped." });
    expect(screen.getByRole("alert").textContent).toBe("The sandbox stopped.");
  });
  it("accepts output of another shape", () => {
    show({ output: "nonsense", input: 7 });
    expect(screen.getByTestId("tool:bash")).toBeTruthy();
  });
});

describe("a python card", () => {
  const python = (change: object, live = false) =>
    show({ name: "python", input: { code: "x = 1\nx" }, output: { status: "ok", stdout: "", stderr: "", ...change } }, live);
  it("shows figures as images, and nothing that runs", () => {
    const card = python({ displays: [{ text: "<Figure>", png: "iVBORw0KGgo=" }, { svg: "<svg onload='alert(1)'><script>1</script></svg>" }, { text: "plain", png: "javascript:alert(1)" }] });
    const sources = [...card.querySelectorAll("img")].map((image) => image.getAttribute("src") ?? "");
    expect(sources[0]).toBe("data:image/png;base64,iVBORw0KGgo=");
    expect(sources[1]).toMatch(/^data:image\/svg\+xml;base64,PHN2Zy/);
    expect(sources).toHaveLength(2);
    expect(card.querySelector("script, svg[onload]")).toBeNull();
    expect(screen.getByTestId("tool:result").textContent).toBe("plain");
  });
  it("shows a table of HTML as text in cells", () => {
    const html = `<div><table><thead><tr><th></th><th>a</th></tr></thead><tbody><tr><th>0</th><td><img src=x onerror=alert(1)>7</td></tr></tbody></table></div>`;
    const card = python({ result: { text: "   a\n0  7", html } });
    expect(screen.getByTestId("tool:table").textContent).toBe("a07");
    expect(card.querySelector("img")).toBeNull();
    expect(card.querySelectorAll("thead th, tbody td")).toHaveLength(4);
  });
  it("shows a long table in part", () => {
    const rows = Array.from({ length: 260 }, (_, row) => `<tr><td>${row}</td></tr>`).join("");
    const card = python({ result: { html: `<table>${rows}</table>` } });
    expect(card.querySelectorAll("tbody tr")).toHaveLength(200);
    expect(screen.getByText("60 more rows")).toBeTruthy();
  });
  it("shows the error and where it happened", () => {
    python({ status: "error", error: { name: "ZeroDivisionError", value: "division by zero", traceback: "Traceback…" }, restarted: true });
    expect(screen.getByTestId("tool:error").textContent).toBe("ZeroDivisionError: division by zeroTraceback…");
    expect(screen.getByTestId("tool:status").textContent).toBe("error");
    expect(screen.getByText(/started again/)).toBeTruthy();
  });
  it("is running until its status says otherwise", () => {
    python({ status: "running", stdout: "so far" }, true);
    expect(screen.getByTestId("tool:running")).toBeTruthy();
    expect(screen.getByTestId("tool:stdout").textContent).toBe("so far");
    expect(isFinished(call({ name: "python", output: { status: "running" } }))).toBe(false);
    expect(isFinished(call({ name: "python", output: { status: "ok" } }))).toBe(true);
  });
  it("accepts output of another shape", () => {
    show({ name: "python", output: { status: 7, displays: [3, null, {}], result: "x", error: 1 }, input: null });
    expect(screen.getByTestId("tool:python")).toBeTruthy();
  });
});

describe("a preview card", () => {
  const preview = (url: string) => show({ name: "sandboxUrl", input: { port: 3000 }, output: { url } });
  it("frames another origin, sandboxed", () => {
    const frame = preview("http://127.0.0.1:49152/").querySelector("iframe");
    expect(frame?.getAttribute("sandbox")).toBe("allow-scripts allow-forms allow-same-origin allow-popups allow-modals allow-downloads");
    expect(frame?.getAttribute("referrerpolicy")).toBe("no-referrer");
  });
  it("never frames its own origin", () => {
    const card = preview(`${location.origin}/c/x`);
    expect(card.querySelector("iframe")).toBeNull();
    expect(card.querySelector("a[target=_blank]")).not.toBeNull();
  });
  it("accepts only web addresses", () => {
    const card = preview("javascript:alert(1)");
    expect(card.querySelector("iframe, a")).toBeNull();
    expect(webAddress("file:///etc/passwd")).toBeNull();
  });
});

describe("other cards", () => {
  it("name the file, and show a failure", () => {
    show({ name: "writeFile", input: { path: "a/b.txt", content: "hello" }, output: { success: true } });
    expect(screen.getByTestId("tool:writeFile").textContent).toContain("a/b.txt5 characterswritten");
    show({ name: "readFile", input: { path: "gone" }, error: "There is no such file." });
    expect(screen.getByTestId("tool:readFile").textContent).toContain("There is no such file.");
  });
  it("show an unknown tool as JSON", () => {
    show({ name: "weather", input: { town: "Delft" }, output: { sun: true } });
    fireEvent.click(screen.getByLabelText("Show output"));
    expect(screen.getByTestId("tool:weather").textContent).toContain('"sun": true');
  });
});

describe("a part", () => {
  it("has ended with a final result, but not with a running one", () => {
    expect(isFinished(call({ output: output({ exitCode: RUNNING }) }))).toBe(false);
    expect(isFinished(call({ output: output({}) }))).toBe(true);
    expect(isFinished(call({ error: "x" }))).toBe(true);
    expect(isFinished(call({}))).toBe(false);
  });
  it("treats a missing code as running and counts only whole characters", () => {
    expect(bashOutput({ stdout: 1, stdoutTruncatedChars: -4 })).toEqual({ stdout: "", stderr: "", exitCode: RUNNING, stdoutTruncatedChars: 0, stderrTruncatedChars: 0 });
  });
  it("has a tone for each kind of end", () => {
    expect([0, 1, 124, 137, 255].map(exitTone)).toEqual(["ok", "bad", "warn", "warn", "bad"]);
    expect(exitMeaning(1, 1000)).toBeNull();
  });
});
