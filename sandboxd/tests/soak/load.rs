//! The client of one session: sends all kinds of requests at a constant rate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::command::{Record, StartCommand};
use sandbox_api::files::{FileToWrite, WriteFiles};
use sandbox_api::port::{CreateLink, LinkStyle};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error, TerminalEvent};
use test_daemon::script;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::chance::Chance;

/// Time limit of one action.
const ACT: Duration = Duration::from_secs(60);

/// The port that previews show.
const PORT: u16 = 3000;

/// Output of a command whose reader reads only the beginning.
const MUCH: &str = "head -c 20000000 /dev/zero | tr '\\0' x";

/// The actions. More entries mean a higher probability.
const ACTS: [&str; 24] = [
    "run", "run", "run", "run", "run", "start", "start", "start", "detached", "detached", "follow", "leave",
    "files", "files", "files", "big file", "list", "list", "terminal", "terminal", "preview", "park",
    "touch", "delete",
];

pub(crate) struct Load {
    client: Client,
    key: String,
    chance: Chance,
    sandbox: Option<SandboxId>,
    count: u64,
    /// Per action: the number of successes, and of rejections at a limit.
    did: BTreeMap<&'static str, [u64; 2]>,
    pub(crate) broken: Vec<String>,
}

impl Load {
    pub(crate) fn new(client: Client, number: u64, chance: Chance) -> Self {
        let (did, broken) = (BTreeMap::new(), Vec::new());
        Self { client, key: format!("chat:{number}"), chance, sandbox: None, count: 0, did, broken }
    }

    /// Acts until `stop` is set.
    pub(crate) async fn run(mut self, pause: Duration, continues: Arc<AtomicBool>) -> Self {
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while continues.load(Ordering::SeqCst) {
            ticks.tick().await;
            let act = if self.sandbox.is_none() { "create" } else { self.chance.pick(&ACTS) };
            match timeout(ACT, self.act(act)).await {
                Ok(Ok(())) => self.did.entry(act).or_default()[0] += 1,
                Ok(Err(error)) => self.judge(act, &error),
                Err(_) => self.broken.push(format!("{}: {act} took longer than {ACT:?}", self.key)),
            }
        }
        self
    }

    pub(crate) fn report(&self) -> String {
        let acts = self.did.iter().map(|(act, [done, refused])| format!("{act} {done} ({refused} refused)"));
        format!("{}: {}", self.key, acts.collect::<Vec<_>>().join(", "))
    }

    /// Other sessions may use all capacity for a moment, or a command of this session still runs.
    fn judge(&mut self, act: &'static str, error: &Error) {
        let was_parked = matches!(error, Error::Refused { body, .. }
            if matches!(body.details.get("resource").and_then(|kind| kind.as_str()), Some("command" | "terminal")));
        match error.code() {
            Some(ErrorCode::CapacityExhausted | ErrorCode::WrongState | ErrorCode::Unavailable) => {
                self.did.entry(act).or_default()[1] += 1;
            }
            // A park removes output and terminals. Creates of other sessions cause parks.
            Some(ErrorCode::NotFound) if was_parked => self.did.entry(act).or_default()[1] += 1,
            _ => self.broken.push(format!("{}: {act}: {error:?}", self.key)),
        }
    }

    async fn act(&mut self, act: &str) -> Result<(), Error> {
        self.count += 1;
        let Some(id) = self.sandbox.clone() else {
            return self.create().await;
        };
        match act {
            "run" => {
                drain(self.client.run(&id, &script("echo $((40 + 2)); ls -la /usr/bin | head -200")).await?)
                    .await
            }
            "start" => self.start(&id).await,
            "detached" => self.detached(&id).await,
            "follow" => self.follow(&id).await,
            "leave" => self.leave(&id).await,
            "files" => self.files(&id).await,
            "big file" => self.big_file(&id).await,
            "list" => self.list(&id).await,
            "terminal" => self.terminal(&id).await,
            "preview" => self.preview(&id).await,
            "park" => self.client.park(&id, false).await.map(drop),
            "touch" => self.client.touch(&id, None).await.map(drop),
            _ => {
                self.sandbox = None;
                self.client.delete(&id).await.map(drop)
            }
        }
    }

    async fn create(&mut self) -> Result<(), Error> {
        let request = CreateSandbox {
            session_key: self.key.clone(),
            ports: Some(vec![PORT.into()]),
            ..CreateSandbox::default()
        };
        self.sandbox = Some(self.client.create_or_reconnect(&request).await?.sandbox_id);
        Ok(())
    }

    async fn start(&self, id: &SandboxId) -> Result<(), Error> {
        let command_id = format!("cmd_{}x{:016}", self.key.replace(':', ""), self.count);
        let request = StartCommand { command_id: Some(command_id), ..script("seq 2000; sleep 0.1") };
        let command = self.client.start(id, &request).await?.command_id;
        self.client.wait(id, &command, None).await?;
        drain(self.client.logs(id, &command, 0, true).await?).await
    }

    async fn detached(&self, id: &SandboxId) -> Result<(), Error> {
        let request =
            StartCommand { detached: Some(true), ..script("for i in {1..20}; do echo $i; sleep 0.05; done") };
        let mut records = self.client.run(id, &request).await?;
        // Disconnects at once. The command keeps running.
        drop(records.next().await.transpose()?);
        Ok(())
    }

    async fn follow(&self, id: &SandboxId) -> Result<(), Error> {
        let command = self.client.start(id, &script("seq 100000; sleep 0.2")).await?.command_id;
        let mut records = self.client.follow(id, &command, 0);
        while let Some(record) = records.next().await {
            record?;
        }
        Ok(())
    }

    async fn leave(&self, id: &SandboxId) -> Result<(), Error> {
        let mut records = self.client.run(id, &script(MUCH)).await?;
        for _ in 0..5 {
            drop(records.next().await.transpose()?);
        }
        Ok(())
    }

    async fn files(&mut self, id: &SandboxId) -> Result<(), Error> {
        let path = format!("dir/file-{}", self.chance.below(20));
        let content = self.key.repeat(1 + self.chance.below(4000) as usize);
        let file =
            FileToWrite { path: path.clone(), content_base64: BASE64_STANDARD.encode(content), mode: None };
        self.client.write_files(id, &WriteFiles { files: vec![file] }).await?;
        self.client.read_file(id, &path).await.map(drop)
    }

    async fn big_file(&self, id: &SandboxId) -> Result<(), Error> {
        let file = FileToWrite {
            path: "big".into(),
            content_base64: BASE64_STANDARD.encode(vec![b'x'; 4 << 20]),
            mode: None,
        };
        self.client.write_files(id, &WriteFiles { files: vec![file] }).await?;
        self.client.read_file(id, "big").await.map(drop)
    }

    async fn list(&self, id: &SandboxId) -> Result<(), Error> {
        self.client.list(&Default::default()).await?;
        self.client.get(id).await?;
        self.client.commands(id, 100).await.map(drop)
    }

    async fn terminal(&self, id: &SandboxId) -> Result<(), Error> {
        let terminal = self.client.open_terminal(id, &OpenTerminal::default()).await?.terminal_id;
        let (mut events, mut keyboard) = self.client.attach_terminal(id, &terminal).await?;
        keyboard.type_in("seq 5000; echo the-$((40 + 2))-end\r").await?;
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            if let TerminalEvent::Output(bytes) = event? {
                seen.extend(bytes);
            }
            if seen.windows(10).any(|window| window == b"the-42-end") {
                break;
            }
        }
        self.client.close_terminal(id, &terminal).await.map(drop)
    }

    async fn preview(&mut self, id: &SandboxId) -> Result<(), Error> {
        let server = format!(
            "exec node -e \"require('http').createServer((req, res) => res.end('x'.repeat(100000)))\
             .listen({PORT}, '127.0.0.1')\""
        );
        let request = StartCommand { detached: Some(true), timeout_ms: Some(20_000), ..script(&server) };
        let command = self.client.start(id, &request).await?.command_id;
        // A link with its own port would keep its listener for a while after it is revoked.
        let request = CreateLink { style: Some(LinkStyle::Host), ttl_ms: Some(30_000) };
        let link = self.client.create_link(id, PORT, &request).await?;
        for _ in 0..10 {
            // Until the server listens, visitors get an error.
            if let Err(error) = visit(&link.url).await
                && error.is_connect()
            {
                self.broken.push(format!("{}: preview: {error:?}", self.key));
            }
        }
        self.client.revoke_link(id, PORT, &link.link_id).await?;
        self.client.kill(id, &command, &Default::default()).await.map(drop)
    }
}

async fn visit(url: &str) -> Result<(), reqwest::Error> {
    let url = reqwest::Url::parse(url).unwrap();
    // Without a name server: a browser resolves names below localhost itself.
    let address = SocketAddr::from(([127, 0, 0, 1], url.port().unwrap()));
    let visitor = reqwest::Client::builder().timeout(Duration::from_secs(10));
    let visitor = visitor.resolve(url.host_str().unwrap(), address).build()?;
    visitor.get(url).send().await?.bytes().await.map(drop)
}

async fn drain(mut records: sandbox_client::Records) -> Result<(), Error> {
    while let Some(record) = records.next().await {
        if let Record::Exit { .. } = record? {
            break;
        }
    }
    Ok(())
}
