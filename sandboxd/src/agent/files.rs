//! Files, over the wire to the agent and back.

use agent_protocol::v1;
use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt};

use super::command::within;
use super::{AgentHandle, Error};
use crate::model::files::NewFile;
use crate::model::limits;

impl AgentHandle {
    /// Writes all of the files or none.
    pub async fn write_files(&self, files: Vec<NewFile>) -> Result<(), Error> {
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        within(limits::FILE_TRANSFER, client.write(parts(files))).await?;
        Ok(())
    }

    /// Reads a whole file of at most `max_bytes`.
    pub async fn read_file(&self, path: &str, max_bytes: u64) -> Result<Bytes, Error> {
        let request = v1::ReadFileRequest { path: path.to_owned().into(), max_bytes, range: None };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let read = async {
            let mut chunks = client.read(request).await?.into_inner();
            let mut content = BytesMut::new();
            while let Some(chunk) = chunks.try_next().await? {
                // The agent keeps to this; a sandbox that speaks in its place might not.
                if (content.len() + chunk.data.len()) as u64 > max_bytes {
                    return Err(tonic::Status::out_of_range("more than was asked for"));
                }
                content.extend_from_slice(&chunk.data);
            }
            Ok(content.freeze())
        };
        within(limits::FILE_TRANSFER, read).await
    }
}

/// The files in parts of a bounded size; the first part of each names it.
fn parts(files: Vec<NewFile>) -> impl Stream<Item = v1::FilePart> + Send + 'static {
    futures::stream::iter(files.into_iter().flat_map(|file| {
        let head = v1::FileHead { path: file.path.into(), mode: file.mode, ..v1::FileHead::default() };
        let mut rest = file.content;
        let first = take_part(&mut rest);
        std::iter::once(v1::FilePart { head: Some(head), data: first }).chain(std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| v1::FilePart { head: None, data: take_part(&mut rest) })
        }))
    }))
}

fn take_part(rest: &mut Bytes) -> Bytes {
    rest.split_to(rest.len().min(limits::FILE_PART_BYTES))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_file_travels_in_parts_and_only_the_first_names_it() {
        let content = Bytes::from(vec![7; limits::FILE_PART_BYTES + 1]);
        let files =
            ["a", "b"].map(|path| NewFile { path: path.into(), mode: None, content: content.clone() });
        let parts: Vec<v1::FilePart> = parts(files.into()).collect().await;
        let sizes: Vec<usize> = parts.iter().map(|part| part.data.len()).collect();
        assert_eq!(sizes, [limits::FILE_PART_BYTES, 1, limits::FILE_PART_BYTES, 1]);
        let named: Vec<bool> = parts.iter().map(|part| part.head.is_some()).collect();
        assert_eq!(named, [true, false, true, false]);
    }

    #[tokio::test]
    async fn an_empty_file_is_one_part() {
        let files = vec![NewFile { path: "a".into(), mode: None, content: Bytes::new() }];
        assert_eq!(parts(files).count().await, 1);
    }
}
