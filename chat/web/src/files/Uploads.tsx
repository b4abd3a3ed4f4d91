import { X } from "lucide-react";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import { plainName } from "../ui/names";
import { dropUpload, useUploads } from "./queue";

export function Uploads({ chatId }: { chatId: string }) {
  const all = useUploads((state) => state.jobs);
  const jobs = all.filter((job) => job.chatId === chatId);
  if (jobs.length === 0) return null;
  return (
    <ul className="uploads">
      {jobs.map((job) => (
        <li key={job.id} className={job.state === "failed" ? "upload-failed" : ""}>
          <bdi className="clip">{plainName(job.name)}</bdi>
          {job.error ? (
            <span className="upload-error" role="alert">{job.error}</span>
          ) : (
            <>
              <span className="file-meta">{texts.files.share(job.sent / Math.max(1, job.size))}</span>
              <progress value={job.sent} max={Math.max(1, job.size)} aria-label={texts.files.uploading(plainName(job.name))} />
            </>
          )}
          <IconButton label={job.state === "failed" ? texts.files.dismiss : texts.files.cancelUpload(job.name)} onClick={() => dropUpload(job.id)}><X /></IconButton>
        </li>
      ))}
    </ul>
  );
}
