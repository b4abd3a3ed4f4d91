// The JSON of the chat server. Field names are those of the wire; times are RFC 3339 strings.
import type { UIMessage } from "ai";

export type Model = { id: string; name: string; provider: "openai" | "anthropic" };

export type Tools = {
  enabled: boolean;
  /** Why tools cannot be used now: a readable sentence. */
  reason: string | null;
  /** Whether they may recover by themselves, because sandboxd does not respond. */
  isPassing: boolean;
  provider: "docker" | "vercel" | null;
  ports: number[];
  commandTimeoutMs: number;
  maxStdoutChars: number;
  maxStderrChars: number;
};

export type Role = "admin" | "user";

export type User = {
  id: string;
  name: string;
  role: Role;
  /** Without one, the user signs in with an identity provider. */
  hasPassword: boolean;
  createdAt: string;
  disabledAt: string | null;
};

export type Session = { id: string; agent: string | null; createdAt: string; usedAt: string };
export type SessionList = { sessions: Session[]; current: string };
export type Invitation = { id: string; role: Role; createdBy: string; createdAt: string; expiresAt: string };

export type AppInfo = {
  version: string;
  access: "localhost" | "lan" | null;
  /** Whether this request passes the access policy, so that chats can be listed and written. */
  mayUse: boolean;
  /** Whether people sign in. */
  accounts: boolean;
  /** Who is signed in. */
  user: User | null;
  /** Whether people can sign in with an identity provider. */
  identityProvider: boolean;
  tools: Tools;
  models: Model[];
  defaultModel: string | null;
  limits: { messageChars: number; commandChars: number; uploadBytes: number };
};

export type AccessReason =
  | "localhost"
  | "allowed"
  | "missing_server_token"
  | "missing_client_token"
  | "token_mismatch";

export type AdminAccess = {
  isLocalhost: boolean;
  requiredConfigured: boolean;
  tokenProvided: boolean;
  allowed: boolean;
  reason: AccessReason;
};

/** The first two are transient: they are sent while an answer streams and are never stored. */
export type DataParts = {
  chat: { id: string; title: string };
  sandbox: { state: "opening" | "seeding" | "ready" | "failed"; text: string };
  /** Only in stored answers: why the answer is incomplete. */
  failed: { text: string };
  /** A person has stopped the answer. */
  stopped: { text: string };
};

export type ChatMessage = UIMessage<unknown, DataParts>;

export type ChatSummary = {
  id: string;
  title: string;
  createdAt: string;
  updatedAt: string;
  model: string | null;
};

export type ChatPage = { chats: ChatSummary[]; nextCursor: string | null };
export type StoredChat = ChatSummary & { messages: ChatMessage[]; running: boolean; turnId: string | null };
export type TemporaryChat = { id: string; ticket: string };

export type Seed = { state: "none" | "pending" | "running" | "done" | "failed"; reason: string | null };

export type Posture = {
  readonlyRootfs: boolean;
  capabilities: string[];
  noNewPrivileges: boolean;
  seccomp: string;
  user: string;
  network: string;
  runtime: string;
  unenforced: string[];
};

export type SandboxState = "none" | "opening" | "running" | "parked" | "lost" | "unreachable";

export type SandboxInfo = {
  state: SandboxState;
  sandboxId: string | null;
  provider: string | null;
  seed: Seed;
  image: string | null;
  limits: {
    memoryBytes: number | null;
    cpus: number | null;
    diskBytes: number | null;
    pids: number | null;
  } | null;
  usage: { memoryBytes: number | null; diskBytes: number | null; pids: number | null } | null;
  runningCommands: number | null;
  expiresAt: string | null;
  lastActiveAt: string | null;
  /** The network policy. Null if the provider has no policies. */
  network: NetworkPolicy | null;
  posture: Posture | null;
};

export type FileEntry = {
  name: string;
  path: string;
  type: "file" | "directory" | "link" | "other";
  size: number | null;
  modifiedAt: string | null;
};

export type FilePage = {
  path: string;
  entries: FileEntry[];
  nextCursor: string | null;
  /** False if the chat has no sandbox yet, and therefore no files. */
  sandbox?: boolean;
};

export type NetworkMode = "default" | "allowlist" | "none" | "open";
export type NetworkPolicy = { mode: NetworkMode; allow: string[] };
export type DenialReason =
  | "off"
  | "hostNotAllowed"
  | "portNotAllowed"
  | "addressNotAllowed"
  | "notPublic"
  | "nameMismatch"
  | "invalid"
  | "limit";
/** `entry` is the host to allow; null if that would have no effect. */
export type Denial = { host: string; port: number; count: number; lastAt: string; reason: DenialReason; entry: string | null };
export type NetworkInfo = NetworkPolicy & { denials: Denial[] };

/** A terminal of a chat's sandbox. */
export type OpenedTerminal = {
  id: string;
  state: "running" | "ended";
  startedAt: string;
  exitCode: number | null;
};
