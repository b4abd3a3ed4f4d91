//! Entry point of the program. The implementation is in [`sandboxd::program`].

use std::process::ExitCode;

fn main() -> ExitCode {
    sandboxd::program::main()
}
