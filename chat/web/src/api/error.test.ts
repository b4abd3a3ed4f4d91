import { expect, it } from "vitest";
import { asSentence, sentenceOf } from "./error";

it("formats the server's message as a sentence", () => {
  expect(asSentence("the model's server rejects the request (status 500): no")).toBe("The model's server rejects the request (status 500): no.");
  expect(asSentence("`path` must be there.")).toBe("`path` must be there.");
  expect(asSentence("sandboxd does not answer")).toBe("sandboxd does not answer.");
  expect(asSentence("is it running, and is its address correct?")).toBe("Is it running, and is its address correct?");
});

it("has a sentence for any thrown value", () => {
  expect(sentenceOf("x")).toContain("Something went wrong");
});
