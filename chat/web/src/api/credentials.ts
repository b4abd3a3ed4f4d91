// The two secrets the page sends: the LAN token, if the person gave one, and the ticket of each temporary chat.
// They live here in memory; where the token outlives the page is the business of `access/`.

let adminToken = "";
let wanted = true;
const tickets = new Map<string, string>();

export function setAdminToken(token: string): void {
  adminToken = token;
}

/** A server that lets in its own machine alone has no use for the token, and so does not get it. */
export function wantToken(lan: boolean): void {
  wanted = lan;
}

export function setTicket(chatId: string, ticket: string): void {
  tickets.set(chatId, ticket);
}

export function forgetTicket(chatId: string): void {
  tickets.delete(chatId);
}

export function credentialHeaders(chatId?: string): Record<string, string> {
  const headers: Record<string, string> = {};
  if (adminToken && wanted) headers["x-remcochat-admin-token"] = adminToken;
  const ticket = chatId === undefined ? undefined : tickets.get(chatId);
  if (ticket) headers["x-chat-ticket"] = ticket;
  return headers;
}
