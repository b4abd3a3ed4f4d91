// Accounts, sessions and invitations.
import { request, requestJson } from "./http";
import type { Invitation, Role, SessionList, User } from "./types";

export async function signIn(name: string, password: string): Promise<void> {
  await request("/api/session", { method: "POST", json: { name, password } });
}

/** The address of the identity provider, where this browser signs in. */
export async function beginWithProvider(invitation: string): Promise<string> {
  const json = invitation ? { invitation } : {};
  return (await requestJson<{ url: string }>("/api/oidc", { method: "POST", json })).url;
}

export async function signOut(): Promise<void> {
  await request("/api/session", { method: "DELETE" });
}

export async function acceptInvitation(invitation: string, name: string, password: string): Promise<void> {
  await request("/api/invitations/accept", { method: "POST", json: { invitation, name, password } });
}

export async function changePassword(current: string, next: string): Promise<void> {
  await request("/api/account/password", { method: "PUT", json: { current, new: next } });
}

export function listSessions(): Promise<SessionList> {
  return requestJson("/api/account/sessions");
}

export async function endSession(id: string): Promise<void> {
  await request(`/api/account/sessions/${encodeURIComponent(id)}`, { method: "DELETE" });
}

export async function listUsers(): Promise<User[]> {
  return (await requestJson<{ users: User[] }>("/api/users")).users;
}

export async function changeUser(id: string, change: { role?: Role; disabled?: boolean }): Promise<void> {
  await request(`/api/users/${encodeURIComponent(id)}`, { method: "PATCH", json: change });
}

export async function endSessionsOf(id: string): Promise<void> {
  await request(`/api/users/${encodeURIComponent(id)}/sessions`, { method: "DELETE" });
}

export async function listInvitations(): Promise<Invitation[]> {
  return (await requestJson<{ invitations: Invitation[] }>("/api/invitations")).invitations;
}

export function invite(role: Role): Promise<Invitation & { secret: string }> {
  return requestJson("/api/invitations", { method: "POST", json: { role } });
}

export async function withdrawInvitation(id: string): Promise<void> {
  await request(`/api/invitations/${encodeURIComponent(id)}`, { method: "DELETE" });
}
