// The mock's commands. With /bash:
//   x, any text     echoes the command in colours, a line every 150 ms, exit 0
//   flood           1 MB/s of coloured output until it is stopped, eight updates a second, with truncation
//   progress        a progress bar drawn with \r
//   fail | timeout | kill | missing     exit codes 3, 124, 137, 127
//   xss             output that contains HTML
//   error           the tool fails; break: the connection breaks; model-error: the stream reports an error
// With a model, any other text gets a scripted answer: text, bash, writeFile, sandboxUrl, text.

const ESC = "\x1b[";
const TAIL = 12_000;

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Yields outputs; the last has an exit code. `stopped()` returns whether the browser has disconnected. */
export async function* runCommand(command, stopped) {
  const out = { stdout: "", stderr: "", exitCode: -1 };
  const name = command.trim().split(/\s+/)[0];
  if (name === "flood") yield* flood(out, stopped);
  else if (name === "progress") yield* progress(out);
  else if (name === "xss") {
    out.stdout = `<img src=x onerror="window.__xss=1"><script>window.__xss=1</script>\n${ESC}31m<b>bold?</b>${ESC}0m\n\x1b]8;;javascript:window.__xss=1\x1b\\click\x1b]8;;\x1b\\\n`;
  } else yield* echo(command, out, stopped);
  const codes = { fail: 3, timeout: 124, kill: 137, missing: 127 };
  if (name in codes) out.stderr += `${name}: it went wrong\n`;
  out.exitCode = stopped() ? 137 : (codes[name] ?? 0);
  if (stopped()) out.stderr += "stopped by the user\n";
  yield { ...out };
}

async function* echo(command, out, stopped) {
  const lines = [
    `${ESC}1;36m$ ${command}${ESC}0m`,
    `${ESC}32mok${ESC}0m   reading the workspace`,
    `${ESC}33mwarn${ESC}0m two files have ${ESC}4munusual${ESC}0m names`,
    `${ESC}38;5;208m256 colours${ESC}0m and ${ESC}38;2;120;160;255mtrue colours${ESC}0m, ${ESC}7mreversed${ESC}0m`,
    ...Array.from({ length: /\d/.test(command) ? 40 : 3 }, (_, n) => `line ${n + 1} of the output`),
  ];
  for (const line of lines) {
    if (stopped()) return;
    out.stdout += `${line}\n`;
    yield { ...out };
    await pause(150);
  }
  out.stderr = command.includes("err") ? "a word on stderr\n" : "";
}

async function* flood(out, stopped) {
  const chunk = Array.from({ length: 1400 }, (_, n) => `${ESC}3${n % 8}m${String(n).padStart(6)}${ESC}0m ${"x".repeat(72)}`).join("\n");
  let total = 0;
  for (let turn = 0; turn < 8 * 600 && !stopped(); turn += 1) {
    total += 131_072;
    out.stdout = `${chunk}\nturn ${turn}\n`.slice(-TAIL);
    out.stdoutTruncatedChars = total - TAIL;
    yield { ...out };
    await pause(125);
  }
}

async function* progress(out) {
  for (let percent = 0; percent <= 100; percent += 5) {
    out.stdout += `\r${ESC}32m${"█".repeat(percent / 5)}${ESC}90m${"░".repeat(20 - percent / 5)}${ESC}0m ${percent}%`;
    yield { ...out };
    await pause(80);
  }
  out.stdout += "\ndone\n";
}

export const ANSWER = `Here is what I found. The workspace has **two** source files, and \`main.rs\` is the entry.

| file | lines | why it matters |
|---|--:|---|
| src/main.rs | 12 | the entry |
| README.md | 3 | says what this is |

\`\`\`rust
fn main() {
    // Count first, then report.
    let lines = std::fs::read_to_string("notes.txt").map_or(0, |text| text.lines().count());
    println!("{lines} lines");
}
\`\`\`

1. I wrote a small page.
2. I served it on port 3000; see the preview above.

<script>window.__xss = 1</script> ![tracker](https://example.org/pixel.png) [a link](https://example.org) [bad](javascript:window.__xss=1)
`;

export const PAGE = `<!doctype html>
<html lang="en">
  <title>Hello</title>
  <h1>Hello from the sandbox</h1>
</html>
`;
