//! Standard input of a command that was started with `open_stdin`.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use reqwest::{Body, Method, RequestBuilder};
use sandbox_api::{CommandId, Done, SandboxId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::command::path_of;
use crate::{Client, Error, TRANSFER, UNLIMITED, json};

/// How long neither end of a stream may move. The daemon gives a sender five minutes and a command half of one.
const STANDSTILL: Duration = Duration::from_secs(6 * 60);

impl Client {
    /// Writes to a command's standard input and closes it then where `close` says so; empty data only closes. The
    /// answer means that the command's pipe has all of it. Refused with `wrong_state` where the input is not open
    /// (any more), and with `deadline_exceeded` where the command does not read; `details.writtenBytes` tells what
    /// it had taken. Not safe to repeat.
    ///
    /// ```no_run
    /// use sandbox_api::command::StartCommand;
    ///
    /// # async fn example(client: sandbox_client::Client, sandbox: sandbox_api::SandboxId) -> Result<(), sandbox_client::Error> {
    /// let wish = StartCommand { script: Some("sort".into()), open_stdin: Some(true), ..StartCommand::default() };
    /// let sort = client.start(&sandbox, &wish).await?.command_id;
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

    /// The same with bytes as they come, however many. A command that reads slowly slows the stream. An error of the
    /// stream ends the call and closes nothing; what was sent before stays written.
    pub async fn stream_stdin<E>(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        data: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
        close: bool,
    ) -> Result<Done, Error>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let (moved, mut moves) = watch::channel(());
        let data = data.inspect(move |_| moved.send_replace(()));
        let request = self.stdin(sandbox, command, close).body(Body::wrap_stream(data));
        let standstill = async {
            while let Ok(Ok(())) = timeout(STANDSTILL, moves.changed()).await {}
            // The end of the data, after which there is only the answer to wait for, or nothing for as long.
            if moves.has_changed().is_err() {
                sleep(STANDSTILL).await;
            }
        };
        tokio::select! {
            done = json(request, UNLIMITED) => done,
            () = standstill => Err(Error::Silent { after: STANDSTILL }),
        }
    }

    fn stdin(&self, sandbox: &SandboxId, command: &CommandId, close: bool) -> RequestBuilder {
        let path = format!("{}/stdin?close={close}", path_of(sandbox, command));
        self.request(Method::POST, &path)
    }
}
