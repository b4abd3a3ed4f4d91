import { expect, it } from "vitest";
import { failureOfAddress, invitationOfAddress, linkOf, takeInvitationFromAddress } from "./invitation";

it("an invitation is taken from the address and removed, and the rest of the fragment is kept", () => {
  history.replaceState(null, "", "/#token=t");
  takeInvitationFromAddress();
  expect([invitationOfAddress(), location.hash]).toEqual(["", "#token=t"]);
  history.replaceState(null, "", "/?x=1#invitation=a_b-c&token=t");
  takeInvitationFromAddress();
  expect([invitationOfAddress(), location.search, location.hash]).toEqual(["a_b-c", "?x=1", "#token=t"]);
  history.replaceState(null, "", "/#sign-in-error=begin+again");
  takeInvitationFromAddress();
  expect([failureOfAddress(), location.hash]).toEqual(["begin again", ""]);
  expect(linkOf("a_b-c")).toBe(`${location.origin}/#invitation=a_b-c`);
});
