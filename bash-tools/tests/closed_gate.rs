//! Cost of a closed gate for the requests of an app that does not use the tools.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use axum::http::Request;
use bash_tools::config::{self, Environment};
use bash_tools::gates::{Decision, Gates, Reason};
use futures::FutureExt;

const ENABLED: &str = "[app.bash_tools]\nenabled = true\nprovider = 'docker'\naccess = 'lan'\n\
    docker.orchestrator_url = 'http://127.0.0.1:1'\nseed.git_url = 'https://git.lan/x'\n";

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count of the allocations of each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "nothing else tells of allocations")]
// SAFETY: every call is forwarded unchanged to the system's allocator. A `Cell` without a destructor allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: it came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn allocations() -> usize {
    ALLOCATIONS.with(Cell::get)
}

fn gates(file: &str, switch: &str) -> Gates {
    let tools = config::parse(file).unwrap().tools;
    let find = |name: &str| (name == "REMCOCHAT_ENABLE_BASH_TOOL").then(|| switch.to_owned());
    Gates::new(tools.as_ref(), &Environment::read(tools.as_ref(), find)).unwrap()
}

#[test]
fn a_gate_closed_to_everyone_allocates_nothing() {
    for (file, switch, reason) in [("", "1", Reason::NotConfigured), (ENABLED, "0", Reason::SwitchedOff)] {
        let gates = gates(file, switch);
        let (parts, ()) = Request::new(()).into_parts();
        let before = allocations();
        let decision = gates.decide(&parts).now_or_never();
        assert_eq!(allocations() - before, 0);
        assert_eq!(decision, Some(Decision::Disabled(reason)));
    }
    let before = allocations();
    drop(black_box(Box::new(1)));
    assert_eq!(allocations() - before, 1, "the counter does not count");
}
