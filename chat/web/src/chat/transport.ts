// The AI SDK's transport for messages, with the page's credentials and errors, and a record of the response's
// headers.
import { DefaultChatTransport } from "ai";
import { pageHeaders } from "../api/credentials";
import { send } from "../api/http";
import type { ChatMessage } from "../api/types";
import { sawToolsHeader } from "../access/store";

export type Outgoing = {
  id: string;
  messages: ChatMessage[];
  trigger: "submit-message" | "regenerate-message";
  messageId: string | undefined;
  model: string | undefined;
};

/**
 * The server keeps the history of a stored chat, so only the last message is sent; a temporary chat sends all
 * messages.
 */
export function bodyOf(outgoing: Outgoing, temporary: boolean): Record<string, unknown> {
  const { messages, messageId, model, ...rest } = outgoing;
  return {
    ...rest,
    messages: temporary ? messages : messages.slice(-1),
    ...(messageId === undefined ? {} : { messageId }),
    ...(model === undefined ? {} : { model }),
  };
}

export function transportFor(chatId: string, temporary: boolean, onBegin: () => void) {
  return new DefaultChatTransport<ChatMessage>({
    api: "/api/chat",
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
      headers: { ...pageHeaders(chatId), "x-remcochat-viewer-timezone": Intl.DateTimeFormat().resolvedOptions().timeZone },
      body: bodyOf({ id, messages, trigger, messageId, model: modelOf(body) }, temporary),
    }),
    fetch: async (input, init) => {
      const response = await send(input as string, init ?? {});
      sawToolsHeader(response.headers.get("x-remcochat-bash-tools-enabled"));
      onBegin();
      return response;
    },
  });
}

function modelOf(body: object | undefined): string | undefined {
  const model: unknown = body && "model" in body ? body.model : undefined;
  return typeof model === "string" ? model : undefined;
}
