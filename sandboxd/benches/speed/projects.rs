//! What projects, tokens and the audit record cost.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::{Client, Error};

use crate::home::Home;
use crate::table::{difference, heading, row};

/// Blocks of each contender, in turns.
const ROUNDS: usize = 20;

/// Commands or pages of a block.
const BLOCK: usize = 25;

/// Projects of a large daemon, and tokens of each.
const PROJECTS: usize = 1_000;
const TOKENS: usize = 10;

/// Requests at once that create them.
const AT_ONCE: usize = 32;

/// Starts of the daemon.
const STARTS: usize = 5;

pub(crate) async fn measure() {
    authentication().await;
    audit().await;
    many_projects().await;
}

/// A client with a sandbox.
type User = (Client, SandboxId);

async fn user(client: Client) -> User {
    let request = CreateSandbox { session_key: "bench".into(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    (client, sandbox)
}

/// `true`, with the operator's token, which is compared and nothing else, and with that of a project.
async fn authentication() {
    let mut home = Home::new();
    home.start_with(&[("SANDBOXD_COMMANDS_PER_MINUTE", "0")]).await;
    let operator = home.client();
    operator.create_project("lab").await.unwrap();
    let token = operator.create_token("lab", &CreateToken::default()).await.unwrap().token;
    let of_project = Client::new(format!("http://127.0.0.1:{}", home.port), &token).unwrap();
    let [operators, projects] = in_turns([user(operator).await, user(of_project).await]).await;
    heading("`true` by the token of the request");
    let operators = row("the operator's", operators);
    let projects = row("a project's", projects);
    difference("difference of p50", projects.p50 - operators.p50, "at most 0.05 ms");
}

/// `true`, with the record on the disk, and with one in memory, which nothing waits for.
async fn audit() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = memory.path().join("audit");
    let (mut on_disk, mut in_memory) = (Home::new(), Home::new());
    on_disk.start().await;
    in_memory.start_with(&[("SANDBOXD_AUDIT_DIR", dir.to_str().unwrap())]).await;
    let users = [user(on_disk.client()).await, user(in_memory.client()).await];
    let [on_disk, in_memory] = in_turns(users).await;
    heading("`true` by the place of the audit record");
    let in_memory = row("in memory", in_memory);
    let on_disk = row("on the disk", on_disk);
    difference("difference of p50", on_disk.p50 - in_memory.p50, "0 ms");
}

async fn in_turns(users: [User; 2]) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for ((client, sandbox), times) in users.iter().zip(&mut times) {
            for _ in 0..BLOCK {
                let began = Instant::now();
                run_true(client, sandbox).await.unwrap();
                times.push(began.elapsed());
            }
        }
    }
    times
}

async fn run_true(client: &Client, sandbox: &SandboxId) -> Result<(), Error> {
    let request = StartCommand { script: Some("true".into()), ..StartCommand::default() };
    client.run(sandbox, &request).await?.try_for_each(|_| async { Ok(()) }).await
}

/// Starts and pages of a daemon with many projects, beside one with none.
async fn many_projects() {
    let (mut empty, mut large) = (Home::new(), Home::new());
    large.start().await;
    fill(&large.client()).await;
    large.stop();
    let mut starts = [Vec::new(), Vec::new()];
    for _ in 0..STARTS {
        for (home, times) in [&mut empty, &mut large].into_iter().zip(&mut starts) {
            times.push(home.start().await);
            home.stop();
        }
    }
    let [empty_starts, large_starts] = starts;
    heading(&format!("{PROJECTS} projects with {TOKENS} tokens each"));
    let empty_starts = row("start without projects", empty_starts);
    let large_starts = row("start with them", large_starts);
    difference("difference of p50", large_starts.p50 - empty_starts.p50, "at most 1000 ms");
    large.start().await;
    let client = large.client();
    let (mut projects, mut tokens) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS * BLOCK {
        let cursor = name(number % PROJECTS);
        let began = Instant::now();
        client.projects(Some(&cursor)).await.unwrap();
        projects.push(began.elapsed());
        let began = Instant::now();
        client.tokens(&cursor, None).await.unwrap();
        tokens.push(began.elapsed());
    }
    row("a page of 100 projects (goal: at most 20 ms)", projects);
    row("a page of tokens (goal: at most 20 ms)", tokens);
}

fn name(number: usize) -> String {
    format!("project-{number:04}")
}

async fn fill(client: &Client) {
    let projects = stream::iter(0..PROJECTS).map(|number| async move {
        let name = name(number);
        client.create_project(&name).await.unwrap();
        for _ in 0..TOKENS {
            client.create_token(&name, &CreateToken::default()).await.unwrap();
        }
    });
    projects.buffer_unordered(AT_ONCE).collect::<()>().await;
}
