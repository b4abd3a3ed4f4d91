import { render } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { blocksOf } from "./blocks";
import { Markdown } from "./Markdown";

function drawn(text: string, growing = false): HTMLElement {
  return render(<Markdown text={text} growing={growing} />).container;
}

describe("untrusted markdown", () => {
  it("renders no HTML", () => {
    const page = drawn('<script>x</script><img src=x onerror=y> <b onclick="z">b</b>\n\n<iframe src="https://e.org"></iframe>');
    expect(page.querySelector("script, img, iframe, b")).toBeNull();
  });
  it("keeps only safe links, and opens them in a new tab", () => {
    const page = drawn("[a](https://e.org) [b](javascript:x) [c](data:text/html,x) [d](vbscript:x)");
    const links = [...page.querySelectorAll("a")];
    expect(links.map((link) => link.getAttribute("href"))).toEqual(["https://e.org"]);
    expect(links[0]?.rel).toBe("noopener noreferrer");
    expect(links[0]?.target).toBe("_blank");
  });
  it("shows external images as links", () => {
    const page = drawn("![alt](https://e.org/pixel.png)");
    expect(page.querySelector("img")).toBeNull();
    expect(page.querySelector("a")?.textContent).toBe("Image: alt");
  });
});

it("shows bidi control characters in code", () => {
  expect(drawn("```sh\nrm \u202eoto\n```").querySelector("pre")?.textContent).toBe("rm ‹U+202E›oto");
});

describe("growing markdown", () => {
  const text = "# Title\n\nA paragraph\nof two lines.\n\n- one\n\n- two\n\n  still two\n\nAfter.\n\n```sh\na\n\nb\n```\n\nEnd";
  it("is split between blocks, never inside a fence or a list", () => {
    expect(blocksOf(text)).toEqual(["# Title\n", "A paragraph\nof two lines.\n\n- one\n\n- two\n\n  still two\n", "After.\n", "```sh\na\n\nb\n```\n", "End"]);
  });
  it("renders the same as the complete text", () => {
    const elements = (page: HTMLElement) => page.innerHTML.replace(/>\s+</g, "><");
    expect(elements(drawn(text, true))).toBe(elements(drawn(text)));
  });
  it("is not rendered again at its end when it is long", () => {
    const long = "A paragraph.\n\n".repeat(1000);
    const { container, rerender } = render(<Markdown text={long} growing />);
    const first = container.querySelector("p");
    rerender(<Markdown text={long} growing={false} />);
    expect(container.querySelector("p")).toBe(first);
    expect(container.querySelectorAll("p")).toHaveLength(1000);
  });
  it("does not end a longer fence at a shorter one inside", () => {
    expect(blocksOf("````\n```\n\nx\n````\n\ny")).toEqual(["````\n```\n\nx\n````\n", "y"]);
  });
});
