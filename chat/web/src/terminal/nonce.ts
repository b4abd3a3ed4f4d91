type CreateElement = (tag: string, options?: ElementCreationOptions) => HTMLElement;

/**
 * xterm.js makes style elements while it opens, which the content security policy accepts only with the page's nonce. It has no
 * option for that, and its option for another document does not reach all of them.
 */
export function withNonce(act: () => void): void {
  const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
  const create: CreateElement = Reflect.get(document, "createElement");
  const createWithNonce: CreateElement = (tag, options) => {
    const element = create.call(document, tag, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
  Object.defineProperty(document, "createElement", { configurable: true, value: createWithNonce });
  try {
    act();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}
