//! Test hooks between the visible steps of a change. A test can make the next step fail, or act as a command.

/// A visible step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A backup of the file to replace is in the staging directory.
    BackedUp,
    /// A file or directory is at its destination.
    Placed,
    /// A directory was created.
    Made,
    /// The tree to remove has left the workspace.
    TakenAway,
}

#[cfg(not(test))]
pub(super) const fn reached(_: Step) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use injected::{on, reached};

#[cfg(test)]
mod injected {
    use std::cell::RefCell;
    use std::io;

    use super::Step;

    type Hook = Box<dyn FnMut(Step) -> io::Result<()>>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Calls `hook` at every step that this thread reaches, until the result is dropped.
    pub(in super::super) fn on(hook: impl FnMut(Step) -> io::Result<()> + 'static) -> impl Drop {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                HOOK.set(None);
            }
        }
        HOOK.set(Some(Box::new(hook)));
        Off
    }

    pub(in super::super) fn reached(step: Step) -> io::Result<()> {
        HOOK.with_borrow_mut(|hook| hook.as_mut().map_or(Ok(()), |hook| hook(step)))
    }
}
