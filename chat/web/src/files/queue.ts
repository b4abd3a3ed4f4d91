// Uploads, one after the other, each with its progress. They continue while the panel is closed.
import { create } from "zustand";
import { sentenceOf } from "../api/error";
import { type Upload, uploadFile } from "../api/files";
import { suspect, useServer } from "../server/store";
import { texts } from "../texts";
import { announce } from "../ui/announce";
import { bytes } from "../ui/format";

export type UploadJob = {
  id: number;
  chatId: string;
  name: string;
  size: number;
  sent: number;
  state: "waiting" | "sending" | "failed";
  error: string | null;
};

type Work = { file: File; path: string; running: Upload | null };

/** `finished` increases with each completed upload, so that folders know when to refresh. */
export const useUploads = create<{ jobs: UploadJob[]; finished: number }>(() => ({ jobs: [], finished: 0 }));

const work = new Map<number, Work>();
let lastId = 0;
let busy = false;

export function addUploads(chatId: string, folder: string, files: File[]): void {
  const limit = useServer.getState().info?.limits.uploadBytes ?? Infinity;
  const jobs = files.map((file): UploadJob => {
    lastId += 1;
    const error = file.size > limit ? texts.files.tooLarge(file.name, bytes(limit)) : null;
    const path = folder ? `${folder}/${file.name}` : file.name;
    if (error === null) work.set(lastId, { file, path, running: null });
    return { id: lastId, chatId, name: file.name, size: file.size, sent: 0, state: error ? "failed" : "waiting", error };
  });
  useUploads.setState((state) => ({ jobs: [...state.jobs, ...jobs] }));
  if (!busy) void sendAll();
}

/** Cancels a running upload, or removes a failed or waiting one. */
export function dropUpload(id: number): void {
  work.get(id)?.running?.cancel();
  forget(id);
}

async function sendAll(): Promise<void> {
  busy = true;
  for (;;) {
    const next = useUploads.getState().jobs.find((job) => job.state === "waiting");
    const task = next && work.get(next.id);
    if (!next || !task) break;
    await sendOne(next, task);
  }
  busy = false;
}

async function sendOne(job: UploadJob, task: Work): Promise<void> {
  change(job.id, { state: "sending" });
  task.running = uploadFile(job.chatId, task.path, task.file, (sent) => change(job.id, { sent }));
  try {
    await task.running.done;
    forget(job.id);
    announce(texts.files.uploaded(job.name));
    useUploads.setState(({ finished }) => ({ finished: finished + 1 }));
  } catch (thrown) {
    suspect(thrown);
    work.delete(job.id);
    change(job.id, { state: "failed", error: sentenceOf(thrown) });
  }
}

function change(id: number, to: Partial<UploadJob>): void {
  useUploads.setState(({ jobs }) => ({ jobs: jobs.map((job) => (job.id === id ? { ...job, ...to } : job)) }));
}

function forget(id: number): void {
  work.delete(id);
  useUploads.setState(({ jobs }) => ({ jobs: jobs.filter((job) => job.id !== id) }));
}
