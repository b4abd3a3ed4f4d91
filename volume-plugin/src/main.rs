//! The program of the plugin. The engine starts it.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match volume_plugin::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "sandboxd-volumes: {error}");
            ExitCode::FAILURE
        }
    }
}
