//! What is searched for in files and among names.

use agent_protocol::v1;
use futures::TryStreamExt;

use super::super::command::within;
use super::super::{AgentHandle, Error};
use super::wire;
use sandboxd_model::files::{FileInfo, Found, GlobWish, GrepMatch, GrepWish};
use sandboxd_model::limits;

impl AgentHandle {
    /// Lines that match.
    pub async fn grep(&self, wish: GrepWish) -> Result<Found<GrepMatch>, Error> {
        let max_results = wish.max_results;
        let request = v1::GrepRequest {
            path: wish.path.0,
            query: wish.query,
            regex: wish.regex,
            case_insensitive: wish.case_insensitive,
            include: wish.include,
            max_results,
            include_ignored: wish.include_ignored,
        };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let search = async {
            let mut messages = client.grep(request).await?.into_inner();
            let (mut found, mut bounds) =
                (Found { results: Vec::new(), cut: None }, Bounds::new(max_results));
            while let Some(reply) = messages.try_next().await? {
                bounds.check(reply.matches.len(), &reply)?;
                found.cut = wire::cut(reply.cut());
                found.results.extend(reply.matches.into_iter().map(wire::grep_match));
            }
            Ok(found)
        };
        within(limits::SEARCH, search).await
    }

    /// Files and directories with a fitting path.
    pub async fn glob(&self, wish: GlobWish) -> Result<Found<FileInfo>, Error> {
        let max_results = wish.max_results;
        let request = v1::GlobRequest {
            path: wish.path.0,
            pattern: wish.pattern,
            exclude: wish.exclude,
            max_results,
            include_ignored: wish.include_ignored,
        };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let search = async {
            let mut messages = client.glob(request).await?.into_inner();
            let (mut entries, mut cut, mut bounds) = (Vec::new(), None, Bounds::new(max_results));
            while let Some(reply) = messages.try_next().await? {
                bounds.check(reply.entries.len(), &reply)?;
                cut = wire::cut(reply.cut());
                entries.extend(reply.entries);
            }
            Ok((entries, cut))
        };
        let (entries, cut) = within(limits::SEARCH, search).await?;
        let results: Result<_, Error> = entries.into_iter().map(wire::info).collect();
        Ok(Found { results: results?, cut })
    }
}

/// How much of an answer may still come. The agent keeps to this; a sandbox that speaks in its place might not.
pub(super) struct Bounds {
    items: usize,
    bytes: usize,
}

impl Bounds {
    pub(super) fn new(items: u32) -> Self {
        Self { items: items as usize, bytes: limits::MAX_FOUND_BYTES }
    }

    pub(super) fn check(&mut self, items: usize, message: &impl prost::Message) -> Result<(), tonic::Status> {
        let more = || tonic::Status::out_of_range("more than was asked for");
        self.items = self.items.checked_sub(items).ok_or_else(more)?;
        self.bytes = self.bytes.checked_sub(message.encoded_len()).ok_or_else(more)?;
        Ok(())
    }
}
