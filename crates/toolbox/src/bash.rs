//! Commands: `bash`, `bash_output`, `bash_kill` and `bash_list`.

mod reading;
pub(crate) mod text;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use sandbox_api::command::{CommandState, EndReason, KillCommand, Record, StartCommand};
use sandbox_api::{CommandId, SandboxId};
use sandbox_client::Error as ClientError;
use tokio::time::{Instant, sleep_until};

use self::reading::{Ended, Kept, Reading};
use self::text::text_of;
use crate::denied::DeniedHosts;
use crate::toolbox::{Call, Toolbox};
use crate::{Error, Reply, Resumed, input, output, programs, stages};

pub(crate) use self::reading::{MAX_STDERR_CHARS, MAX_STDOUT_CHARS, bytes_of};

/// Time limit of a command whose call has none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a call waits for the command's end. Hosts cut calls off after a minute.
const DEFAULT_WAIT: Duration = Duration::from_secs(45);

/// Maximum time to wait for a command's end.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// How long a call without a wait collects the output that is already there.
const COLLECT: Duration = Duration::from_millis(50);

/// Characters of a command in a list.
const LISTED_CHARS: usize = 200;

/// How the wait for a command's end was over.
enum Waited {
    Ended(Ended),
    StillRunning,
    Cancelled,
    /// The user must be asked before the wait continues.
    MustAsk,
}

type Records = BoxStream<'static, Result<Record, ClientError>>;

impl Toolbox {
    pub(crate) async fn bash(
        &self,
        sandbox: &SandboxId,
        input: input::Bash,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let wait = match input.background {
            Some(true) => Duration::ZERO,
            _ => wait_of(input.wait_ms, DEFAULT_WAIT)?,
        };
        let kept = Kept::of(input.output)?;
        if let Some(resumed) = &call.resumed {
            return self.resume(sandbox, resumed, wait, kept, call).await;
        }
        // A profile of limits has its own default.
        let default_timeout_ms = input.limits.is_none().then_some(DEFAULT_TIMEOUT.as_millis() as u64);
        let request = StartCommand {
            script: Some(input.command),
            cwd: input.cwd,
            env: input.env,
            timeout_ms: input.timeout_ms.or(default_timeout_ms),
            // It keeps running when the call returns before its end.
            detached: Some(true),
            save_output: Some(true),
            capture: input.capture,
            read_only: input.read_only,
            limits: input.limits,
            debug: input.debug,
            ..StartCommand::default()
        };
        let began = Instant::now();
        let mut records = self.client.run(sandbox, &request).await?;
        let command = match records.next().await.unwrap_or(Err(ClientError::Cut))? {
            Record::Start { command_id, .. } => command_id,
            _ => return Err(ClientError::Cut.into()),
        };
        let denied = DeniedHosts::new(self, sandbox, &command, began, wait, call);
        let reading = Reading::new(sandbox, command, 0, kept);
        self.wait_and_report(reading, records.boxed(), wait, call, denied).await.map_err(Error::after_start)
    }

    /// Waits for a command, and returns what it has written since.
    async fn wait_and_report(
        &self,
        mut reading: Reading,
        records: Records,
        wait: Duration,
        call: &Call<'_>,
        mut denied: DeniedHosts<'_>,
    ) -> Result<Reply, Error> {
        let waited = self.read_on(&mut reading, records, wait, call, &mut denied).await?;
        self.result(reading, waited, denied).await
    }

    /// Continues a call after the user was asked. Starts nothing.
    async fn resume(
        &self,
        sandbox: &SandboxId,
        resumed: &Resumed,
        wait: Duration,
        kept: Kept,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let (command, position) = (&resumed.resume.command, resumed.resume.position);
        if resumed.resume.sandbox != *sandbox {
            return Err(Error::OtherSandbox);
        }
        let mut denied = DeniedHosts::new(self, sandbox, command, Instant::now(), wait, call);
        denied.apply(resumed).await;
        let records = self.client.logs(sandbox, command, position, true).await?;
        let reading = Reading::new(sandbox, command.clone(), position, kept);
        self.wait_and_report(reading, records.boxed(), wait.max(COLLECT), call, denied).await
    }

    pub(crate) async fn bash_output(
        &self,
        sandbox: &SandboxId,
        input: input::BashOutput,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let wait = wait_of(input.wait_ms, Duration::ZERO)?;
        let kept = Kept::of(input.output)?;
        if let Some(resumed) = &call.resumed {
            return self.resume(sandbox, resumed, wait, kept, call).await;
        }
        let command = command_of(&input.command_id)?;
        let from_start = input.from_start.unwrap_or(false);
        let position = if from_start { 0 } else { self.cursors().get(sandbox, &command) };
        let records = self.client.logs(sandbox, &command, position, true).await?;
        let denied = DeniedHosts::new(self, sandbox, &command, Instant::now(), wait, call);
        let reading = Reading::new(sandbox, command, position, kept);
        self.wait_and_report(reading, records.boxed(), wait.max(COLLECT), call, denied).await
    }

    pub(crate) async fn bash_kill(
        &self,
        sandbox: &SandboxId,
        input: input::BashKill,
    ) -> Result<Reply, Error> {
        let command = command_of(&input.command_id)?;
        let killed =
            self.client.kill(sandbox, &command, &KillCommand { signal: input.signal.clone() }).await?;
        let text = match (&input.signal, killed.already_ended, killed.restarted) {
            (_, true, _) => format!("{command} had already ended."),
            (_, _, true) => format!(
                "{command} was ended by a restart of the sandbox. Its other commands have ended too. Files are kept."
            ),
            (Some(signal), ..) => format!("{signal} was sent to {command}."),
            (None, ..) => format!("{command} was ended."),
        };
        let (already_ended, restarted) = (killed.already_ended, killed.restarted);
        Ok(Reply::new(text, &output::Killed { command_id: command, already_ended, restarted }))
    }

    pub(crate) async fn bash_list(
        &self,
        sandbox: &SandboxId,
        input: input::BashList,
    ) -> Result<Reply, Error> {
        let found = self.client.commands(sandbox, input.limit.unwrap_or(20).clamp(1, 200)).await?;
        let own = found.commands.into_iter().filter(|command| !programs::is_search(&command.args));
        let commands: Vec<_> = own.map(listed).collect();
        let lines = commands.iter().map(|command| {
            let state = match command.exit_code {
                None => "running".to_owned(),
                Some(code) => format!("exit code {code}"),
            };
            format!("{}  {}  {state}  {}", command.command_id, command.started_at, command.command)
        });
        let text = if commands.is_empty() {
            "No command has run.".into()
        } else {
            lines.collect::<Vec<_>>().join("\n")
        };
        Ok(Reply::new(text, &output::Commands { commands }))
    }

    /// Reads records until the command's end and the user's answers about denied hosts, for at most `wait`. Continues
    /// after a broken connection.
    async fn read_on(
        &self,
        reading: &mut Reading,
        mut records: Records,
        wait: Duration,
        call: &Call<'_>,
        denied: &mut DeniedHosts<'_>,
    ) -> Result<Waited, Error> {
        let until = Instant::now() + wait;
        let mut next_report = call.progress.pause().map(|pause| Instant::now() + pause);
        let (mut ended, mut is_late) = (None, false);
        loop {
            // Checked here too, because records may arrive without a pause.
            is_late |= wait > Duration::ZERO && Instant::now() >= until;
            let is_over = is_late || (ended.is_some() && !denied.awaits_answers());
            if denied.is_due(is_over) {
                return Ok(Waited::MustAsk);
            }
            if is_over {
                return Ok(ended.map_or(Waited::StillRunning, Waited::Ended));
            }
            if next_report.is_some_and(|at| Instant::now() >= at) {
                call.progress.report(&reading.last_line.take()).await;
                next_report = call.progress.pause().map(|pause| Instant::now() + pause);
            }
            let record = tokio::select! {
                biased;
                () = call.cancel.cancelled() => return Ok(Waited::Cancelled),
                () = denied.advance() => continue,
                record = records.next(), if ended.is_none() => record.unwrap_or(Err(ClientError::Cut)),
                () = sleep_until(until) => {
                    is_late = true;
                    continue;
                }
                () = sleep_until(next_report.unwrap_or(until)), if next_report.is_some() => continue,
            };
            match record {
                Ok(record) => {
                    ended = reading.add(record);
                    match &ended {
                        Some(ended) if ended.may_be_denied => denied.settle().await,
                        Some(_) => denied.stop(),
                        None => {}
                    }
                }
                Err(error) if error.is_temporary() => {
                    records =
                        self.client.follow(&reading.sandbox, &reading.command, reading.position).boxed();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn result(
        &self,
        mut reading: Reading,
        waited: Waited,
        denied: DeniedHosts<'_>,
    ) -> Result<Reply, Error> {
        let ended = match waited {
            Waited::MustAsk => return Ok(denied.pending(reading.start).into()),
            Waited::Ended(ended) => Some(ended),
            Waited::StillRunning => None,
            Waited::Cancelled => {
                self.client.kill(&reading.sandbox, &reading.command, &KillCommand::default()).await?;
                None
            }
        };
        self.cursors().set(&reading.sandbox, &reading.command, reading.position);
        if ended.is_some() {
            reading.stdout.finish();
            reading.stderr.finish();
            reading.trace.finish();
        }
        let (stdout, stderr, trace) = (reading.stdout.shown(), reading.stderr.shown(), reading.trace.shown());
        let is_whole = stdout.omitted.is_nothing() && stderr.omitted.is_nothing();
        let output_path = ended.as_ref().and_then(|ended| ended.output_path.clone());
        let output_complete = match &ended {
            Some(ended) if output_path.is_some() => ended.output_complete,
            Some(ended) => Some(is_whole && !reading.is_incomplete && ended.reason != EndReason::Lost),
            None => None,
        };
        let location = output_path.as_deref();
        let has_failed = ended.as_ref().is_some_and(|ended| ended.exit_code != 0);
        let is_error = has_failed && denied.are_unapprovable();
        let result = output::CommandResult {
            command_id: reading.command,
            running: ended.is_none(),
            exit_code: ended.as_ref().map(|ended| ended.exit_code),
            reason: ended.as_ref().map(|ended| ended.reason),
            signal: ended.as_ref().and_then(|ended| ended.signal.clone()),
            duration_ms: ended.as_ref().map(|ended| ended.duration_ms),
            truncated: !is_whole,
            stdout: stdout.with_notice(location),
            stderr: stderr.with_notice(location),
            trace: Some(trace.with_notice(None)).filter(|trace| !trace.is_empty()),
            stages: stages::shown(reading.stages),
            output_path,
            output_complete,
            denied_hosts: denied.into_output(),
            limit_exceeded: ended.as_ref().and_then(|ended| ended.limit_exceeded.clone()),
            read_only_violation: ended.and_then(|ended| ended.read_only_violation),
        };
        Ok(Reply { is_error, ..Reply::new(text_of(&result), &result) })
    }
}

fn command_of(text: &str) -> Result<CommandId, Error> {
    text.parse().map_err(|error: sandbox_api::IdError| Error::Argument {
        field: "commandId",
        problem: format!("is {error}: take it from the result of `bash`"),
    })
}

fn wait_of(wait_ms: Option<u64>, default: Duration) -> Result<Duration, Error> {
    let wait = wait_ms.map_or(default, Duration::from_millis);
    if wait > MAX_WAIT {
        let problem = format!("must be at most {}", MAX_WAIT.as_millis());
        return Err(Error::Argument { field: "waitMs", problem });
    }
    Ok(wait)
}

fn listed(command: sandbox_api::command::Command) -> output::ListedCommand {
    let mut argv = command.args;
    argv.insert(0, command.cmd);
    // A script is listed without the shell that runs it.
    let text = match argv.as_slice() {
        [bash, flag, script] if bash.ends_with("bash") && flag == "-c" => script.clone(),
        _ => argv.join(" "),
    };
    output::ListedCommand {
        command_id: command.command_id,
        command: text.chars().take(LISTED_CHARS).collect(),
        running: command.state == CommandState::Running,
        started_at: command.started_at,
        exit_code: command.exit_code,
    }
}
