// The two secrets that the page sends: the LAN token, if the user entered one, and the ticket of each temporary chat.
// They are kept in memory here; `access/` stores the token beyond the page.

let adminToken = "";
let wanted = true;
const tickets = new Map<string, string>();

export function setAdminToken(token: string): void {
  adminToken = token;
}

/** A server that allows only its own machine does not need the token, so it is not sent. */
export function wantToken(lan: boolean): void {
  wanted = lan;
}

export function setTicket(chatId: string, ticket: string): void {
  tickets.set(chatId, ticket);
}

export function forgetTicket(chatId: string): void {
  tickets.delete(chatId);
}

/** Whether the chat is a temporary one, which must leave no traces. */
export function hasTicket(chatId: string): boolean {
  return tickets.has(chatId);
}

/** The headers of a request that may change something. Pages of other origins cannot send the last one. */
export function pageHeaders(chatId?: string): Record<string, string> {
  return { ...credentialHeaders(chatId), "x-chat-request": "1" };
}

export function credentialHeaders(chatId?: string): Record<string, string> {
  const headers: Record<string, string> = {};
  if (adminToken && wanted) headers["x-remcochat-admin-token"] = adminToken;
  const ticket = chatId === undefined ? undefined : tickets.get(chatId);
  if (ticket) headers["x-chat-ticket"] = ticket;
  return headers;
}
