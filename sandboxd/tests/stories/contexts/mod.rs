//! Contexts: interpreters that keep their state between runs of code.

mod bounds;
mod ends;
mod hostile;
mod javascript;
mod python;
mod shell;
mod tool_faults;
mod tools;
