// The AI SDK's transport for messages, with the page's credentials and errors, and a record of the response's
// headers.
import { DefaultChatTransport, type UIMessageChunk } from "ai";
import { chatPath } from "../api/chats";
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

type Sending = Omit<Outgoing, "model"> & { body: object | undefined };

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

export type Heard = {
  /** The server has accepted the message, or lets the page join the answer. */
  began: () => void;
  /** The server says that the answer was stopped. */
  stopped: () => void;
};

class Transport extends DefaultChatTransport<ChatMessage> {
  constructor(
    options: ConstructorParameters<typeof DefaultChatTransport<ChatMessage>>[0],
    private readonly stopped: () => void,
  ) {
    super(options);
  }

  /** The SDK does not report this chunk. */
  protected override processResponseStream(body: ReadableStream<Uint8Array<ArrayBuffer>>): ReadableStream<UIMessageChunk> {
    const { stopped } = this;
    return super.processResponseStream(body).pipeThrough(
      new TransformStream<UIMessageChunk, UIMessageChunk>({
        transform(chunk, controller) {
          if (chunk.type === "abort") stopped();
          controller.enqueue(chunk);
        },
      }),
    );
  }
}

export function transportFor(chatId: string, temporary: boolean, heard: Heard) {
  const options = {
    api: "/api/chat",
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }: Sending) => ({
      headers: { ...pageHeaders(chatId), "x-remcochat-viewer-timezone": Intl.DateTimeFormat().resolvedOptions().timeZone },
      body: bodyOf({ id, messages, trigger, messageId, model: modelOf(body) }, temporary),
    }),
    prepareReconnectToStreamRequest: () => ({ api: `${chatPath(chatId)}/stream`, headers: pageHeaders(chatId) }),
    fetch: async (input: RequestInfo | URL, init?: RequestInit) => {
      const response = await send(input as string, init ?? {});
      sawToolsHeader(response.headers.get("x-remcochat-bash-tools-enabled"));
      heard.began();
      return response;
    },
  };
  return new Transport(options, () => heard.stopped());
}

function modelOf(body: object | undefined): string | undefined {
  const model: unknown = body && "model" in body ? body.model : undefined;
  return typeof model === "string" ? model : undefined;
}
