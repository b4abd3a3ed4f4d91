import { beforeEach, expect, it } from "vitest";
import { setTicket } from "../api/credentials";
import { setLive } from "./live";
import { continueWith, dequeue, enqueue, forgetAllQueued, forgetQueued, hasQueued, hold, release } from "./queued";

const KEY = "sandboxd-chat:queued";
const QUIET = { running: false, settling: false, failure: null };

beforeEach(() => {
  forgetQueued("a");
  setLive("a", QUIET);
});

/** A conversation, and what it was asked to send. */
function sent() {
  const texts: string[] = [];
  let refuse: ((isBusy: boolean) => void) | undefined;
  const send = (text: string, refused?: (isBusy: boolean) => void) => {
    refuse = refused;
    return Promise.resolve(void texts.push(text));
  };
  return { texts, refuse: (isBusy: boolean) => refuse?.(isBusy), next: () => continueWith({ id: "a", send }) };
}

it("sends one message after each answer, in their order", () => {
  for (const text of ["one", "two", "three"]) enqueue("a", text);
  dequeue("a", 1);
  const { texts, next } = sent();
  expect(next()).toBe(true);
  expect(texts).toEqual(["one"]);
  expect([next(), next()]).toEqual([true, false]);
  expect(texts).toEqual(["one", "three"]);
});

it("holds what waited for an answer that was stopped, and sends what came after", () => {
  enqueue("a", "one");
  enqueue("a", "two");
  hold("a");
  enqueue("a", "three");
  const { texts, next } = sent();
  expect([next(), next()]).toEqual([true, false]);
  release("a", 1);
  next();
  expect(texts).toEqual(["three", "two"]);
});

it("holds all after an answer that has failed", () => {
  enqueue("a", "one");
  setLive("a", { failure: { sentence: "no", during: "answer", code: null } });
  const { texts, next } = sent();
  expect(next()).toBe(false);
  setLive("a", QUIET);
  expect(next()).toBe(false);
  expect(texts).toEqual([]);
});

it.each([true, false])("keeps the place of a message that the server does not accept, busy: %s", (isBusy) => {
  enqueue("a", "one");
  enqueue("a", "two");
  const { texts, next, refuse } = sent();
  next();
  refuse(isBusy);
  next();
  expect(texts).toEqual(isBusy ? ["one", "one"] : ["one", "two"]);
  expect(hasQueued("a")).toBe(true);
});

it("keeps them over a reload, but for temporary chats and the next user", () => {
  setTicket("t", "ticket");
  enqueue("a", "one");
  enqueue("t", "secret");
  expect(sessionStorage.getItem(KEY)).toBe('{"a":[{"text":"one","held":false}]}');
  forgetAllQueued();
  expect(sessionStorage.getItem(KEY)).toBeNull();
});
