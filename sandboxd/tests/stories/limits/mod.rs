//! Limits, each attacked from inside a sandbox while a neighbour keeps running. A story asserts the error that the
//! attacker sees, and that attacker and neighbour work as before. It also asserts that the limit is the one in
//! `posture` and in the host's own files. Times of the neighbour's commands are only printed, except for a bound that
//! only a stall exceeds.

mod cpu;
mod disk;
mod handles;
mod memory;
mod oom;
mod options;
mod processes;
mod reported;
mod tmpfs;
