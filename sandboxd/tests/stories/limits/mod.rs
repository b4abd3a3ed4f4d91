//! Limits that hold: each is run against from inside of a sandbox while a neighbour goes on working.
//!
//! A story asserts what the attacker gets to see, that the limit's number is the one `posture` tells and the
//! host's own files have, and that attacker and neighbour are as good as before. How long the neighbour's
//! commands take meanwhile is printed and not judged, but for a bound that only a stall exceeds.

mod cpu;
mod disk;
mod handles;
mod memory;
mod oom;
mod options;
mod processes;
mod reported;
mod tmpfs;
