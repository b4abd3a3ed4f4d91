// The state of a chat that exists only while the page is open: running, the sandbox's progress, the last failure.
import { create } from "zustand";
import type { DataParts } from "../api/types";

export type Failure = {
  sentence: string;
  /**
   * "sending": the server did not accept the message, and the text is back in the composer. "answer": the answer was
   * interrupted.
   */
  during: "sending" | "answer";
  code: string | null;
};

export type Live = {
  /** This page is receiving the answer. */
  running: boolean;
  /** The answer was stopped or lost, and the page requests its end from the server. */
  settling: boolean;
  sandbox: DataParts["sandbox"] | null;
  failure: Failure | null;
};

const QUIET: Live = { running: false, settling: false, sandbox: null, failure: null };

const useLives = create<{ lives: Record<string, Live> }>(() => ({ lives: {} }));

export function useLive(chatId: string): Live {
  return useLives(({ lives }) => lives[chatId] ?? QUIET);
}

/** Whether any chat of this page is being answered. */
export function useAnyRunning(): boolean {
  return useLives(({ lives }) => Object.values(lives).some(({ running }) => running));
}

export function liveOf(chatId: string): Live {
  return useLives.getState().lives[chatId] ?? QUIET;
}

export function setLive(chatId: string, change: Partial<Live>): void {
  useLives.setState(({ lives }) => ({ lives: { ...lives, [chatId]: { ...(lives[chatId] ?? QUIET), ...change } } }));
}

/** Calls the listener when nothing is in progress in a chat any more. An answer that the page joins again has not ended. */
export function onceIdle(listener: (chatId: string) => void): void {
  useLives.subscribe((now, before) => {
    for (const chatId of Object.keys(before.lives)) {
      if (isBusy(before.lives[chatId]) && !isBusy(now.lives[chatId])) {
        setTimeout(() => {
          if (!isTaken(chatId)) listener(chatId);
        });
      }
    }
  });
}

function isBusy(live: Live | undefined): boolean {
  return live !== undefined && (live.running || live.settling);
}

/** Nothing can be sent now: an answer is in progress. */
export function isTaken(chatId: string): boolean {
  return isBusy(liveOf(chatId));
}
