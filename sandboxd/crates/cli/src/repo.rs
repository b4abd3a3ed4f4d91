//! `sandboxd repo`: runs one command that reads a repository.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::ErrorCode;
use sandbox_api::command::{EndReason, OutputOptions};
use sandbox_api::repository::{RepositoryRan, RunInRepository};
use sandbox_client::{Client, Error};
use sandboxd_model::limits::MAX_OUTPUT_TOKENS;
use sandboxd_model::repository::PackageName;

use super::dependency::{self, Dependency};
use super::progress::waiting;
use super::{DaemonArgs, exit_code, saved_output, text};
use sandboxd_config::Config;

/// Tokens of each output that are printed without `--max-tokens`.
const DEFAULT_MAX_TOKENS: u64 = 6000;

/// Run one command that reads a git repository or an npm package, and exit with its code
///
/// Without -r and -v, the version of a package is the one that the project in the current directory uses.
#[derive(Debug, Clone, clap::Args)]
pub struct RepoArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Branch, tag or hash of a commit
    #[arg(long = "ref", short = 'r', value_name = "REF", conflicts_with = "version")]
    git_ref: Option<String>,
    /// Version such as 1.2.3, or a dist-tag of a package
    #[arg(long, short, value_name = "VERSION")]
    version: Option<String>,
    /// Time limit of the command, in seconds
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Tokens of each output that are printed, of about 4 characters; the whole is saved in a file
    #[arg(long, value_name = "TOKENS", default_value_t = DEFAULT_MAX_TOKENS,
        value_parser = clap::value_parser!(u64).range(1..=MAX_OUTPUT_TOKENS))]
    max_tokens: u64,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
    /// `owner/name`, an address that begins with https://, the name of an npm package, or `dir:name`
    #[arg(value_name = "REPO")]
    repository: String,
    /// A single argument is a bash script; several are a program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the command. The exit code is that of the command.
pub(crate) async fn repo(args: RepoArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let request = request(&args)?;
    let fetching = format!("running in {}", request.repository);
    let ran = waiting(&fetching, client.run_in_repository(&request)).await;
    let mut ran = ran.map_err(|error| explain(error, &args, &request, config))?;
    let notes = save_whole_output(&client, &mut ran).await;
    print(&ran, args.json)?;
    let mut errors = io::stderr().lock();
    for note in warnings(&ran).into_iter().chain(notes) {
        writeln!(errors, "sandboxd: {}", text::printable(&note))?;
    }
    Ok(ExitCode::from(exit_code::of_command(ran.exit_code)))
}

fn request(args: &RepoArgs) -> anyhow::Result<RunInRepository> {
    let mut request = RunInRepository {
        repository: args.repository.clone(),
        git_ref: args.git_ref.clone(),
        version: args.version.clone(),
        command: script(&args.command),
        timeout_ms: Some(args.timeout.saturating_mul(1000)),
        session_key: None,
        output: Some(OutputOptions { max_tokens: Some(args.max_tokens), ..OutputOptions::default() }),
    };
    if args.git_ref.is_none()
        && args.version.is_none()
        && let Some(name) = PackageName::parse(&args.repository)
    {
        let dependency = dependency::find(&name)?;
        writeln!(io::stderr(), "sandboxd: {}", text::printable(&dependency.to_string()))?;
        let (package, version) = match dependency {
            Dependency::Used { package, version, .. } => (package, Some(version)),
            Dependency::Latest { package, .. } => (package, None),
        };
        request.repository = package.to_string();
        request.version = version.map(|version| version.as_str().to_owned());
    }
    Ok(request)
}

/// The script for bash: a single word as it is, or several as a program and its arguments, as for `sandboxd run`.
fn script(words: &[String]) -> String {
    match words {
        [script] => script.clone(),
        words => {
            let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
            quoted.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Copies the file with the whole output to this machine, if the output was cut, and names the copy in the texts. Returns
/// what to say about it. A failure does not fail the command, which has run.
async fn save_whole_output(client: &Client, ran: &mut RepositoryRan) -> Option<String> {
    if !ran.truncated {
        return None;
    }
    let Some(path) = ran.output_path.clone() else {
        return Some("a part of the output is lost".into());
    };
    Some(match saved_output::save(client, &ran.sandbox_id, &path).await {
        Ok(saved) => {
            let local = saved.path.display().to_string();
            ran.stdout = ran.stdout.replace(&path, &local);
            ran.stderr = ran.stderr.replace(&path, &local);
            match saved.is_whole {
                true => format!("the whole output is in {local}"),
                false => format!("what was kept of the output, {}, is in {local}", text::size(saved.bytes)),
            }
        }
        Err(error) => format!(
            "the whole output is not saved here: {error:#}; it is in {path} of the sandbox {}",
            ran.sandbox_id
        ),
    })
}

fn print(ran: &RepositoryRan, is_json: bool) -> anyhow::Result<()> {
    if is_json {
        return Ok(super::write_json(&mut io::stdout().lock(), &serde_json::to_value(ran)?)?);
    }
    let mut out = io::stdout().lock();
    out.write_all(ran.stdout.as_bytes())?;
    out.flush()?;
    io::stderr().lock().write_all(ran.stderr.as_bytes())?;
    Ok(())
}

fn warnings(ran: &RepositoryRan) -> Vec<String> {
    let sentence = |warning: &String| match warning.as_str() {
        "submodules" => "the directories of its submodules are empty".to_owned(),
        "lfs" => "its files in Git LFS are pointers, without their content".to_owned(),
        "skipped" => {
            "files of the directory that the daemon may not read, and special files, are missing".to_owned()
        }
        other => format!("warning of the daemon: {other}"),
    };
    let ended = (ran.reason != EndReason::Exited).then(|| format!("the command ended: {:?}", ran.reason));
    ran.warnings.iter().map(sentence).chain(ended).collect()
}

/// Adds to the error of the call what to do about it.
fn explain(error: Error, args: &RepoArgs, request: &RunInRepository, config: &Config) -> anyhow::Error {
    let name = &request.repository;
    let advice = match error.code() {
        Some(ErrorCode::RepoNotFound) => format!(
            "no repository for {name}: check its spelling; a private one needs a token in SANDBOXD_GIT_TOKENS of the daemon"
        ),
        Some(ErrorCode::VersionNotFound) => {
            format!("no commit for this version of {name}: try another with -v, or a branch or tag with -r")
        }
        Some(ErrorCode::TagNotFound) => format!(
            "no such branch, tag or commit in {name}: list them with `git ls-remote`, or omit -r for the default branch"
        ),
        Some(ErrorCode::RateLimited) => "too many requests for now: try again later".to_owned(),
        _ => return args.daemon.explain(error, config),
    };
    anyhow::Error::new(error).context(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_words_are_a_program_and_its_arguments() {
        let words = |words: &[&str]| script(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(words(&["grep", "it's $HOME", ""]), r"'grep' 'it'\''s $HOME' ''");
    }
}
