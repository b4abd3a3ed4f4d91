// A tool part as the cards read it. The output comes from inside a container and the input from a model, so neither
// is trusted. Values with another shape than the contract's are shown as plain JSON.
import { getToolName, isToolUIPart } from "ai";
import { asSentence, isRecord } from "../api/error";
import type { ChatMessage } from "../api/types";
import { texts } from "../texts";

export type Part = ChatMessage["parts"][number];

export type ToolCall = {
  id: string;
  name: string;
  input: unknown;
  /** Undefined until there is an output. While a command runs, it is preliminary. */
  output: unknown;
  error: string | null;
  /** The model is still writing the input. */
  calling: boolean;
};

export function toolCall(part: Part): ToolCall | null {
  if (!isToolUIPart(part)) return null;
  return {
    id: part.toolCallId,
    name: getToolName(part),
    input: part.input,
    output: part.state === "output-available" ? part.output : undefined,
    error: errorOf(part),
    calling: part.state === "input-streaming",
  };
}

function errorOf(part: Part & { state?: string; errorText?: string }): string | null {
  if (part.state === "output-denied") return texts.tools.denied;
  return part.state === "output-error" ? asSentence(part.errorText ?? texts.errors.unknown) : null;
}

/**
 * The call has ended with a result or an error. For `bash`, a result with exit code -1 is not the end, and for `python` one with
 * the status `running`.
 */
export function isFinished(call: ToolCall): boolean {
  if (call.error !== null) return true;
  if (call.output === undefined) return false;
  if (call.name === "python") return field(call.output, "status") !== "running";
  return call.name !== "bash" || bashOutput(call.output)?.exitCode !== RUNNING;
}

/** The exit code of a command that is still running. */
export const RUNNING = -1;

/** The exit code of a command whose sandbox was lost, as in ssh; a program may also exit with it. */
export const LOST = 255;

export type BashOutput = {
  stdout: string;
  stderr: string;
  exitCode: number;
  stdoutTruncatedChars: number;
  stderrTruncatedChars: number;
};

export function bashOutput(output: unknown): BashOutput | null {
  if (!isRecord(output)) return null;
  return {
    stdout: text(output["stdout"]),
    stderr: text(output["stderr"]),
    exitCode: typeof output["exitCode"] === "number" ? output["exitCode"] : RUNNING,
    stdoutTruncatedChars: natural(output["stdoutTruncatedChars"]),
    stderrTruncatedChars: natural(output["stderrTruncatedChars"]),
  };
}

export function field(value: unknown, name: string): string {
  return isRecord(value) ? text(value[name]) : "";
}

export function numberField(value: unknown, name: string): number | null {
  const found = isRecord(value) ? value[name] : null;
  return typeof found === "number" && Number.isFinite(found) ? found : null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function natural(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.floor(value) : 0;
}

/** A web address to show, or null if it is anything else (javascript:, file:, invalid). */
export function webAddress(url: string): URL | null {
  if (!URL.canParse(url)) return null;
  const parsed = new URL(url);
  return parsed.protocol === "http:" || parsed.protocol === "https:" ? parsed : null;
}
