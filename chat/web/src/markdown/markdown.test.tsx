import { render } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { blocksOf } from "./blocks";
import { Markdown } from "./Markdown";

function drawn(text: string, growing = false): HTMLElement {
  return render(<Markdown text={text} growing={growing} />).container;
}

describe("hostile markdown", () => {
  it("brings no markup of its own", () => {
    const page = drawn('<script>x</script><img src=x onerror=y> <b onclick="z">b</b>\n\n<iframe src="https://e.org"></iframe>');
    expect(page.querySelector("script, img, iframe, b")).toBeNull();
  });
  it("keeps harmless links only, and opens them elsewhere", () => {
    const page = drawn("[a](https://e.org) [b](javascript:x) [c](data:text/html,x) [d](vbscript:x)");
    const links = [...page.querySelectorAll("a")];
    expect(links.map((link) => link.getAttribute("href"))).toEqual(["https://e.org"]);
    expect(links[0]?.rel).toBe("noopener noreferrer");
    expect(links[0]?.target).toBe("_blank");
  });
  it("shows pictures from elsewhere as links", () => {
    const page = drawn("![alt](https://e.org/pixel.png)");
    expect(page.querySelector("img")).toBeNull();
    expect(page.querySelector("a")?.textContent).toBe("Image: alt");
  });
});

it("shows in code what would turn it around", () => {
  expect(drawn("```sh\nrm \u202eoto\n```").querySelector("pre")?.textContent).toBe("rm ‹U+202E›oto");
});

describe("growing markdown", () => {
  const text = "# Title\n\nA paragraph\nof two lines.\n\n- one\n\n- two\n\n  still two\n\nAfter.\n\n```sh\na\n\nb\n```\n\nEnd";
  it("is cut between blocks, never inside a fence or a list", () => {
    expect(blocksOf(text)).toEqual(["# Title\n", "A paragraph\nof two lines.\n\n- one\n\n- two\n\n  still two\n", "After.\n", "```sh\na\n\nb\n```\n", "End"]);
  });
  it("looks the same as when it is whole", () => {
    const elements = (page: HTMLElement) => page.innerHTML.replace(/>\s+</g, "><");
    expect(elements(drawn(text, true))).toBe(elements(drawn(text)));
  });
  it("is not drawn anew at its end when it is long", () => {
    const long = "A paragraph.\n\n".repeat(1000);
    const { container, rerender } = render(<Markdown text={long} growing />);
    const first = container.querySelector("p");
    rerender(<Markdown text={long} growing={false} />);
    expect(container.querySelector("p")).toBe(first);
    expect(container.querySelectorAll("p")).toHaveLength(1000);
  });
  it("does not take a longer fence's inside for its end", () => {
    expect(blocksOf("````\n```\n\nx\n````\n\ny")).toEqual(["````\n```\n\nx\n````\n", "y"]);
  });
});
