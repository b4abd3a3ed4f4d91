//! The program, which is all in the library: see [`sandboxd::program`].

use std::process::ExitCode;

fn main() -> ExitCode {
    sandboxd::program::main()
}
