//! One sandbox: what it is, what it may do, what it did; park, wake and delete.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use futures::future::try_join3;
use maud::{Markup, html};
use sandbox_api::command::{Command, CommandState};
use sandbox_api::network::Denial;
use sandbox_api::sandbox::{Sandbox, SandboxState};
use sandbox_client::Client;

use super::sandboxes::{address_of, state};
use super::{denials, sandbox_of, table};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields;
use crate::layout::{Page, Section, csrf};
use crate::limits::SHOWN_COMMANDS;
use crate::query::Query;
use crate::units;
use crate::visitor::{Scope, Sent, Visitor};

/// The workspace. Asking for it wakes a parked sandbox and changes nothing.
const WORKSPACE: &str = ".";

/// What the page shows.
struct Shown {
    sandbox: Sandbox,
    denials: Vec<Denial>,
    commands: Vec<Command>,
}

/// The page.
pub(crate) async fn show(
    visitor: Visitor,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, Failure> {
    let shown = load(&visitor.client, &id).await?;
    Ok(page(&visitor, &shown, None, query.done()))
}

/// Parks the sandbox.
pub(crate) async fn park(Path(id): Path<String>, sent: Sent) -> Result<Response, Failure> {
    let (visitor, sandbox) = (sent.visitor, sandbox_of(&id)?);
    match visitor.client.park(&sandbox, sent.form.get("force") == "true").await {
        Ok(_) => Ok(Done::Parked.then(&address_of(&sandbox))),
        Err(error) => refused(&visitor, &id, Problem::of(error)?).await,
    }
}

/// Wakes the sandbox.
pub(crate) async fn wake(Path(id): Path<String>, sent: Sent) -> Result<Response, Failure> {
    let (visitor, sandbox) = (sent.visitor, sandbox_of(&id)?);
    match visitor.client.stat_file(&sandbox, WORKSPACE).await {
        Ok(_) => Ok(Done::Woken.then(&address_of(&sandbox))),
        Err(error) => refused(&visitor, &id, Problem::of(error)?).await,
    }
}

/// Asks whether to delete the sandbox.
pub(crate) async fn confirm(visitor: Visitor, Path(id): Path<String>) -> Result<Response, Failure> {
    let sandbox = visitor.client.get(&sandbox_of(&id)?).await?;
    let address = address_of(&sandbox.sandbox_id);
    let content = html! {
        (path())
        h1 { "Delete this sandbox?" }
        dl.facts {
            dt { "Session" } dd { (crate::text::long(&sandbox.session_key)) }
            dt { "Sandbox" } dd { code { (sandbox.sandbox_id) } }
            dt { "State" } dd { (state(sandbox.state)) }
            dt { "Running commands" } dd { (sandbox.running_commands) }
        }
        p { "Its files are deleted, and its commands end. This cannot be undone." }
        form.card method="post" action={ (address) "/delete" } {
            (csrf(&visitor))
            label.choice {
                input type="checkbox" name="snapshots" value="true";
                span { "Also delete its snapshots" }
            }
            div.actions {
                button.danger type="submit" { "Delete sandbox" }
                a.button href=(address) { "Cancel" }
            }
        }
    };
    let title = "Delete a sandbox";
    Ok(Page { visitor: &visitor, title, section: Section::Sandboxes, done: None, content }.into_response())
}

/// Deletes the sandbox.
pub(crate) async fn delete(Path(id): Path<String>, sent: Sent) -> Result<Response, Failure> {
    let (client, sandbox) = (&sent.visitor.client, sandbox_of(&id)?);
    // The API's delete succeeds for a sandbox that does not exist. A person wants to know.
    client.get(&sandbox).await?;
    match sent.form.get("snapshots") {
        "true" => client.delete_with_snapshots(&sandbox).await?,
        _ => client.delete(&sandbox).await?,
    };
    Ok(Done::Deleted.then("/admin/sandboxes"))
}

async fn load(client: &Client, id: &str) -> Result<Shown, Failure> {
    let id = sandbox_of(id)?;
    let requests = try_join3(client.get(&id), client.denials(&id), client.commands(&id, SHOWN_COMMANDS));
    let (sandbox, denials, commands) = requests.await?;
    Ok(Shown { sandbox, denials: denials.denials, commands: commands.commands })
}

async fn refused(visitor: &Visitor, id: &str, problem: Problem) -> Result<Response, Failure> {
    let shown = load(&visitor.client, id).await?;
    Ok((problem.status, page(visitor, &shown, Some(&problem), None)).into_response())
}

fn page(visitor: &Visitor, shown: &Shown, problem: Option<&Problem>, done: Option<Done>) -> Response {
    let Shown { sandbox, denials, commands } = shown;
    let title = crate::text::plain(&sandbox.session_key);
    let content = html! {
        (path())
        h1 { (crate::text::long(&sandbox.session_key)) }
        (fields::of_form(problem, &[]))
        (actions(visitor, sandbox))
        div.pair {
            section aria-labelledby="facts" { h2 #facts { "Sandbox" } (facts(sandbox)) }
            section aria-labelledby="size" { h2 #size { "Limits and use" } (limits(sandbox)) }
        }
        h2 { "Network" }
        (network(sandbox))
        h2 { "Denials" }
        @if denials.is_empty() { p.muted { "No connection was denied since the daemon started." } }
        @else { (denials::of_sandbox(denials)) }
        h2 { "Recent commands" }
        @if commands.is_empty() { p.muted { "No command is recorded." } } @else { (list_of(commands)) }
    };
    Page { visitor, title: &title, section: Section::Sandboxes, done, content }.into_response()
}

fn path() -> Markup {
    html! { p.path { a href="/admin/sandboxes" { "Sandboxes" } } }
}

fn actions(visitor: &Visitor, sandbox: &Sandbox) -> Markup {
    let address = address_of(&sandbox.sandbox_id);
    html! {
        div.actions {
            (state(sandbox.state))
            @if visitor.may(Scope::Use) {
                @if sandbox.state == SandboxState::Running {
                    form.inline method="post" action={ (address) "/park" } {
                        (csrf(visitor))
                        button type="submit" { "Park" }
                        @if sandbox.running_commands > 0 {
                            label.choice {
                                input type="checkbox" name="force" value="true";
                                span { "even if its commands end" }
                            }
                        }
                    }
                }
                @if sandbox.state == SandboxState::Parked {
                    (fields::button(visitor, &format!("{address}/wake"), "Wake", ""))
                }
                a.button.danger href={ (address) "/delete" } { "Delete…" }
            }
        }
    }
}

fn facts(sandbox: &Sandbox) -> Markup {
    html! {
        dl.facts {
            dt { "Id" } dd { code { (sandbox.sandbox_id) } }
            dt { "Image" } dd { (crate::text::cell(&sandbox.image)) }
            dt { "Runtime" } dd { (crate::text::cell(&sandbox.runtime)) }
            dt { "Created" } dd { (units::time(sandbox.created_at)) }
            dt { "Last used" } dd { (units::time(sandbox.last_active_at)) }
            dt { "Parked when idle for" } dd { (units::duration(sandbox.idle_ttl_ms)) }
            @if let Some(at) = sandbox.expires_at {
                dt { @if sandbox.state == SandboxState::Parked { "Deleted if not used by" } @else { "Parked if not used by" } }
                dd { (units::time(at)) }
            }
            dt { "Running commands" } dd { (sandbox.running_commands) }
            @if !sandbox.ports.is_empty() {
                dt { "Ports" } dd { (sandbox.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")) }
            }
            @if !sandbox.env_keys.is_empty() {
                dt { "Variables" }
                dd { @for (index, name) in sandbox.env_keys.iter().enumerate() { @if index > 0 { ", " } (crate::text::cell(name)) } }
            }
        }
    }
}

fn limits(sandbox: &Sandbox) -> Markup {
    let (size, used) = (&sandbox.resources, sandbox.usage.as_ref());
    let mb = |mb: Option<u64>| mb.map(|mb| mb.saturating_mul(1024 * 1024));
    html! {
        dl.facts {
            dt { "Processors" } dd { (size.vcpus.unwrap_or_default()) }
            dt { "Memory" } dd { (of(used.map(|used| used.memory_bytes), mb(size.memory_mb), units::bytes, "memory")) }
            dt { "Disk" } dd { (of(used.and_then(|used| used.disk_bytes), mb(size.disk_mb), units::bytes, "disk")) }
            dt { "Processes" } dd { (of(used.map(|used| used.pids), size.pids, units::count, "processes")) }
            @if let Some(used) = used { dt { "Processor time" } dd { (units::duration(used.cpu_ms)) } }
            @if let Some(posture) = &sandbox.posture {
                dt { "Runs as" } dd { (crate::text::cell(&posture.user)) }
                dt { "Not enforced" }
                dd {
                    @if posture.unenforced.is_empty() { "nothing" }
                    @else { ul { @for one in &posture.unenforced { li { (crate::text::cell(one)) } } } }
                }
            }
        }
    }
}

/// What is used of a limit, with a bar.
fn of(used: Option<u64>, limit: Option<u64>, format: fn(u64) -> String, name: &str) -> Markup {
    html! {
        @match (used, limit) {
            (Some(used), Some(limit)) => {
                (format(used)) " of " (format(limit)) " "
                meter min="0" max=(limit.max(1)) value=(used.min(limit)) aria-label={ "Share of " (name) } {}
            }
            (None, Some(limit)) => { (format(limit)) }
            (Some(used), None) => { (format(used)) }
            (None, None) => { span.muted { "unknown" } }
        }
    }
}

fn network(sandbox: &Sandbox) -> Markup {
    let mode = sandbox.network.mode.as_deref().unwrap_or_default();
    let allow = sandbox.network.allow.as_deref().unwrap_or_default();
    let meaning = match mode {
        "default" => "It reaches the public internet on the ports 80 and 443.",
        "allowlist" => "It reaches only the hosts below.",
        "none" => "It reaches nothing.",
        "open" => "It reaches everything that the daemon’s machine can reach.",
        _ => "",
    };
    html! {
        p { "Mode " strong { (crate::text::cell(mode)) } ". " (meaning) }
        @if !allow.is_empty() { ul { @for rule in allow { li { code { (crate::text::cell(rule)) } } } } }
    }
}

fn list_of(commands: &[Command]) -> Markup {
    let rows = html! {
        @for command in commands {
            tr {
                th scope="row" { code { (crate::text::cell(&line_of(command))) } }
                td { (outcome_of(command)) }
                td { (units::time_of(&command.started_at)) }
                td.number { (units::duration(command.duration_ms)) }
                td.number { (units::bytes(command.stdout_bytes.saturating_add(command.stderr_bytes))) }
            }
        }
    };
    table("Recent commands", &["Command", "Outcome", "Started", "Duration", "Output"], &rows)
}

fn line_of(command: &Command) -> String {
    let mut line = command.cmd.clone();
    for argument in &command.args {
        line.push(' ');
        line.push_str(argument);
    }
    line
}

fn outcome_of(command: &Command) -> Markup {
    html! {
        @if command.state == CommandState::Running { span.state.running { "running" } }
        @else {
            @match command.exit_code { Some(code) => { "exit " (code) }, None => "unknown" }
            @if let Some(signal) = &command.signal { " · " (crate::text::cell(signal)) }
        }
    }
}
