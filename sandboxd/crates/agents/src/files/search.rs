//! Searches in files and for names.

use agent_protocol::v1;
use futures::TryStreamExt;

use super::super::command::within;
use super::super::{AgentHandle, Error};
use super::wire;
use sandboxd_model::files::{FileInfo, Found, GlobOptions, GrepMatch, GrepOptions};
use sandboxd_model::limits;

impl AgentHandle {
    /// Finds the lines that match.
    pub async fn grep(&self, options: GrepOptions) -> Result<Found<GrepMatch>, Error> {
        let max_results = options.max_results;
        let request = v1::GrepRequest {
            path: options.path.0,
            query: options.query,
            regex: options.regex,
            case_insensitive: options.case_insensitive,
            include: options.include,
            max_results,
            include_ignored: options.include_ignored,
        };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let search = async {
            let mut messages = client.grep(request).await?.into_inner();
            let (mut found, mut bounds) =
                (Found { results: Vec::new(), truncated_by: None }, Bounds::new(max_results));
            while let Some(reply) = messages.try_next().await? {
                bounds.check(reply.matches.len(), &reply)?;
                found.truncated_by = wire::truncated_by(reply.cut());
                found.results.extend(reply.matches.into_iter().map(wire::grep_match));
            }
            Ok(found)
        };
        within(limits::SEARCH, search).await
    }

    /// Finds the files and directories whose path matches.
    pub async fn glob(&self, options: GlobOptions) -> Result<Found<FileInfo>, Error> {
        let max_results = options.max_results;
        let request = v1::GlobRequest {
            path: options.path.0,
            pattern: options.pattern,
            exclude: options.exclude,
            max_results,
            include_ignored: options.include_ignored,
        };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let search = async {
            let mut messages = client.glob(request).await?.into_inner();
            let (mut entries, mut truncated_by, mut bounds) = (Vec::new(), None, Bounds::new(max_results));
            while let Some(reply) = messages.try_next().await? {
                bounds.check(reply.entries.len(), &reply)?;
                truncated_by = wire::truncated_by(reply.cut());
                entries.extend(reply.entries);
            }
            Ok((entries, truncated_by))
        };
        let (entries, truncated_by) = within(limits::SEARCH, search).await?;
        let results: Result<_, Error> = entries.into_iter().map(wire::info).collect();
        Ok(Found { results: results?, truncated_by })
    }
}

/// How much of a response may still arrive. The agent respects these limits; a sandbox that responds in its place
/// might not.
pub(super) struct Bounds {
    items: usize,
    bytes: usize,
}

impl Bounds {
    pub(super) fn new(items: u32) -> Self {
        Self { items: items as usize, bytes: limits::MAX_FOUND_BYTES }
    }

    pub(super) fn check(&mut self, items: usize, message: &impl prost::Message) -> Result<(), tonic::Status> {
        let more = || tonic::Status::out_of_range("more than was requested");
        self.items = self.items.checked_sub(items).ok_or_else(more)?;
        self.bytes = self.bytes.checked_sub(message.encoded_len()).ok_or_else(more)?;
        Ok(())
    }
}
