//! Standard input of a command that was started with `open_stdin`.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::Method;
use sandbox_api::{CommandId, Done, SandboxId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::command::path_of;
use crate::deadlines::{TRANSFER, UNLIMITED};
use crate::request::{RequestBuilder, json};
use crate::{Body, BoxError, Client, Error};

/// Maximum time without progress. The daemon waits five minutes for a sender, and half a minute for a command.
const MAX_STALL: Duration = Duration::from_secs(6 * 60);

impl Client {
    /// Writes to a command's standard input, and closes it afterwards if `close` is set. Empty data only closes it.
    /// Returns when the command's pipe has all the data. Fails with `wrong_state` if the input is not open, and with
    /// `deadline_exceeded` if the command does not read. `details.writtenBytes` is the number of bytes written. Not
    /// safe to repeat.
    ///
    /// ```no_run
    /// use sandbox_api::command::StartCommand;
    ///
    /// # async fn example(client: sandbox_client::Client, sandbox: sandbox_api::SandboxId) -> Result<(), sandbox_client::Error> {
    /// let request = StartCommand { script: Some("sort".into()), open_stdin: Some(true), ..StartCommand::default() };
    /// let sort = client.start(&sandbox, &request).await?.command_id;
    /// client.write_stdin(&sandbox, &sort, "pear\n", false).await?;
    /// client.write_stdin(&sandbox, &sort, "apple\n", true).await?;
    /// let ended = client.wait(&sandbox, &sort, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_stdin(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        data: impl Into<Bytes>,
        close: bool,
    ) -> Result<Done, Error> {
        let data: Bytes = data.into();
        json(self.stdin(sandbox, command, close).body(data), TRANSFER).await
    }

    /// Same as [`write_stdin`](Self::write_stdin) for a stream of any length. A command that reads slowly slows the
    /// stream down. An error of the stream ends the call, and the input stays open. Data that was sent before stays
    /// written.
    pub async fn stream_stdin<E>(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        data: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
        close: bool,
    ) -> Result<Done, Error>
    where
        E: Into<BoxError> + 'static,
    {
        let (moved, mut moves) = watch::channel(());
        let data = data.inspect(move |_| moved.send_replace(()));
        let request = self.stdin(sandbox, command, close).body(Body::stream(data));
        let stalled = async {
            while let Ok(Ok(())) = timeout(MAX_STALL, moves.changed()).await {}
            // After the end of the data, only the response is awaited, for the same time.
            if moves.has_changed().is_err() {
                sleep(MAX_STALL).await;
            }
        };
        tokio::select! {
            done = json(request, UNLIMITED) => done,
            () = stalled => Err(Error::Silent { after: MAX_STALL }),
        }
    }

    fn stdin(&self, sandbox: &SandboxId, command: &CommandId, close: bool) -> RequestBuilder {
        let path = format!("{}/stdin?close={close}", path_of(sandbox, command));
        self.request(Method::POST, &path)
    }
}
