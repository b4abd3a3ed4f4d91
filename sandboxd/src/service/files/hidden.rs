//! Files as a model may see them: without the values of secret variables.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use output_text::{Redactor, Secrets};

use crate::agent;
use crate::model::files::{Edited, Found, GrepMatch};
use crate::model::limits::MAX_SEARCH_LINE_BYTES;
use crate::model::secret::SECRET_BYTES;
use crate::service::lifecycle::Sandbox;

/// What happens to the values of the sandbox's secret variables in the content of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretValues {
    /// They are shown.
    Shown,
    /// `[NAME]` is shown in the place of each.
    Hidden,
}

impl SecretValues {
    /// Those of a sandbox.
    pub(super) fn of(self, sandbox: &Sandbox) -> Hidden {
        let secrets = match self {
            Self::Shown => Vec::new(),
            Self::Hidden => sandbox.with_spec(|spec| spec.secrets()),
        };
        let in_lines = Secrets::in_lines(secrets.clone(), *SECRET_BYTES.start());
        Hidden { whole: Secrets::new(secrets), in_lines }
    }
}

/// The values to replace, if any.
pub(super) struct Hidden {
    whole: Option<Arc<Secrets>>,
    /// Each line of a value, for texts that show lines apart.
    in_lines: Option<Arc<Secrets>>,
}

impl Hidden {
    pub(super) fn has_any(&self) -> bool {
        self.whole.is_some()
    }

    pub(super) fn in_content(&self, content: Bytes) -> Bytes {
        match &self.whole {
            Some(secrets) => secrets.redacted_bytes(&content, false).into(),
            None => content,
        }
    }

    pub(super) fn in_edited(&self, edited: Edited) -> Edited {
        match &self.in_lines {
            Some(secrets) => Edited { diff: secrets.redacted_bytes(&edited.diff, false).into(), ..edited },
            None => edited,
        }
    }

    pub(super) fn in_found(&self, found: Found<GrepMatch>) -> Found<GrepMatch> {
        let Some(secrets) = &self.in_lines else { return found };
        let hidden = |found: GrepMatch| {
            let is_cut = found.text.len() >= MAX_SEARCH_LINE_BYTES;
            GrepMatch { text: secrets.redacted_bytes(&found.text, is_cut).into(), ..found }
        };
        Found { results: found.results.into_iter().map(hidden).collect(), ..found }
    }

    pub(super) fn in_stream(
        self,
        bytes: BoxStream<'static, Result<Bytes, agent::Error>>,
    ) -> BoxStream<'static, Result<Bytes, agent::Error>> {
        match self.whole {
            Some(secrets) => stream::unfold(Some((bytes, Redactor::new(secrets))), next_hidden).boxed(),
            None => bytes,
        }
    }
}

type Rest = (BoxStream<'static, Result<Bytes, agent::Error>>, Redactor);

/// The next piece, and the rest after it. What may be the beginning of a value waits for the next piece.
async fn next_hidden(rest: Option<Rest>) -> Option<(Result<Bytes, agent::Error>, Option<Rest>)> {
    let (mut bytes, mut redactor) = rest?;
    match bytes.next().await {
        Some(Ok(piece)) => {
            let shown = redactor.push(&piece).into();
            Some((Ok(shown), Some((bytes, redactor))))
        }
        Some(Err(error)) => Some((Err(error), None)),
        None => Some((Ok(redactor.finish().into()), None)),
    }
}
