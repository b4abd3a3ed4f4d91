//! Runs one command in the sandbox of a chat: `cargo run -- 'uname -a'`.

use std::process::ExitCode;

use bash_tools::tools::{BashInput, CancellationToken};
use bash_tools::{App, gates::Decision, session::ChatKey};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let command = std::env::args().nth(1).ok_or("usage: standalone COMMAND")?;
    let url = std::env::var("SANDBOXD_URL").unwrap_or("http://127.0.0.1:8080".into());
    let token = std::env::var("SANDBOXD_ADMIN_TOKEN").unwrap_or_default();
    let app = App::builder().sandboxd(&url, &token).build()?;
    let tools = app.toolkit(Decision::Enabled, ChatKey::chat("42")?)?;
    let output = tools.bash_whole(BashInput { command, ..BashInput::default() }, CancellationToken::new()).await?;
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    Ok(ExitCode::from(u8::try_from(output.exit_code).unwrap_or(u8::MAX)))
}
