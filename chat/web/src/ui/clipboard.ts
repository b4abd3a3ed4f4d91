// Copies text. The clipboard API exists only on https and localhost. A page on the LAN over plain http needs the
// older method, a selected text field.
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Denied (no focus, no permission): the older method may still work.
    }
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("readonly", "");
  field.className = "hidden-visually";
  // A modal dialog makes the rest of the page inert, so the field must be inside it.
  const home = document.querySelector("dialog[open]") ?? document.body;
  const focused = document.activeElement;
  home.append(field);
  field.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only method without a secure context
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
