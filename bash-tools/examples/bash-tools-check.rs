//! Checks whether the bash tools would work if the chat app started now. Prints every error in its `config.toml` and
//! the environment, one per line. The exit code is 1 if there is an error, and 0 if all is valid or the tools are
//! disabled.
//!
//! ```sh
//! REMCOCHAT_CONFIG_PATH=/etc/remcochat/config.toml cargo run -p bash-tools --example bash-tools-check
//! ```

use std::io::{self, Write};
use std::process::ExitCode;

use bash_tools::config::{self, preflight, process_environment};

fn main() -> io::Result<ExitCode> {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let path = config::path(process_environment);
    let config = match config::load(process_environment) {
        Ok(config) => config,
        Err(error) => {
            writeln!(err, "{error}")?;
            if let Some(source) = std::error::Error::source(&error) {
                writeln!(err, "  {source}")?;
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    for note in &config.notes {
        writeln!(err, "{}: {note} (no harm while the tools are switched off)", path.display())?;
    }
    let Some(tools) = config.tools else {
        writeln!(out, "{}: the bash tools are switched off", path.display())?;
        return Ok(ExitCode::SUCCESS);
    };
    let faults = preflight(&tools, process_environment);
    for fault in &faults {
        writeln!(err, "{fault}")?;
    }
    if !faults.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    writeln!(out, "{}: the bash tools are ready to be used", path.display())?;
    Ok(ExitCode::SUCCESS)
}
