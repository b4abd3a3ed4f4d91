//! The workspace's files: decode, call, encode.

use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1;
use agent_protocol::v1::files_server::Files;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Events, Reply, Service};
use crate::files::batch::Batch;
use crate::files::send_chunks;

/// File parts and chunks on their way between the connection and a blocking thread.
const FILE_QUEUE: usize = 4;

/// What the writer of files is told. Without the last word the sender went away in the middle.
enum Part {
    More(v1::FilePart),
    Complete,
}

#[tonic::async_trait]
impl Files for Service {
    type ReadStream = Events<v1::FileChunk>;
    type ListStream = Events<v1::Listed>;
    type PackStream = Events<v1::FileChunk>;
    type WatchStream = Events<v1::WatchEvents>;

    async fn write(&self, request: Request<Streaming<v1::FilePart>>) -> Reply<v1::WriteFilesReply> {
        let (parts, mut incoming) = mpsc::channel::<Part>(FILE_QUEUE);
        let workspace = Arc::clone(&self.workspace);
        let write = tokio::task::spawn_blocking(move || {
            let mut batch = Batch::new(&workspace);
            while let Some(part) = incoming.blocking_recv() {
                match part {
                    Part::More(part) => batch.add(part)?,
                    Part::Complete => return batch.commit(),
                }
            }
            Err(Kind::FieldInvalid(v1::FieldInvalid {
                field: "files".into(),
                problem: "ended in the middle".into(),
            }))
        });
        let mut stream = request.into_inner();
        while let Some(part) = stream.try_next().await? {
            if parts.send(Part::More(part)).await.is_err() {
                break;
            }
        }
        // Fails only where the writer has already answered with its reason.
        let _ = parts.send(Part::Complete).await;
        let reply = write.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(reply.map_err(to_status)?))
    }

    async fn read(&self, request: Request<v1::ReadFileRequest>) -> Reply<Self::ReadStream> {
        let v1::ReadFileRequest { path, max_bytes, .. } = request.into_inner();
        let path = String::from_utf8_lossy(&path).into_owned();
        let (chunks, outgoing) = mpsc::channel(FILE_QUEUE);
        let (opened, open) = tokio::sync::oneshot::channel();
        let workspace = Arc::clone(&self.workspace);
        tokio::task::spawn_blocking(move || match workspace.open_file(&path, max_bytes) {
            Err(kind) => drop(opened.send(Err(kind))),
            Ok((file, length)) => {
                if opened.send(Ok(())).is_ok() {
                    send_chunks(file, length, &path, &chunks);
                }
            }
        });
        let opened = open.await.map_err(|error| Status::internal(error.to_string()))?;
        opened.map_err(to_status)?;
        Ok(Response::new(ReceiverStream::new(outgoing).map_err(to_status).boxed()))
    }

    async fn stat(&self, _: Request<v1::PathRef>) -> Reply<v1::FileInfo> {
        Err(Status::unimplemented("not yet"))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Reply<Self::ListStream> {
        Err(Status::unimplemented("not yet"))
    }

    async fn make_dir(&self, _: Request<v1::PathRef>) -> Reply<v1::MakeDirReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn r#move(&self, _: Request<v1::MoveRequest>) -> Reply<v1::MoveReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn delete(&self, _: Request<v1::DeleteRequest>) -> Reply<v1::DeleteReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn edit(&self, _: Request<v1::EditRequest>) -> Reply<v1::EditReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn pack(&self, _: Request<v1::PackRequest>) -> Reply<Self::PackStream> {
        Err(Status::unimplemented("not yet"))
    }

    async fn unpack(&self, _: Request<Streaming<v1::UnpackPart>>) -> Reply<v1::UnpackReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Reply<Self::WatchStream> {
        Err(Status::unimplemented("not yet"))
    }

    async fn grep(&self, _: Request<v1::GrepRequest>) -> Reply<v1::GrepReply> {
        Err(Status::unimplemented("not yet"))
    }

    async fn glob(&self, _: Request<v1::GlobRequest>) -> Reply<v1::GlobReply> {
        Err(Status::unimplemented("not yet"))
    }
}
