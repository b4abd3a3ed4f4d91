//! Proofs that the principal of a request may do what it asks for.
//!
//! Methods of components that act for a request take them in place of plain ids. A route gets them from [`super::Access`]
//! alone, after a check. So no route can forget the check: it would not compile.

use std::ops::Deref;

use sandbox_api::SandboxId;

/// An id of an object that the principal of a request may use.
#[derive(Debug, Clone)]
pub struct Authorized<T>(T);

impl<T> Authorized<T> {
    /// An id that was checked, or that the daemon uses for itself.
    pub(super) fn new(id: T) -> Self {
        Self(id)
    }
}

impl<T> Deref for Authorized<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A sandbox that the principal may use, and whose commands of this request are in the audit record.
#[derive(Debug)]
pub struct Recorded(Authorized<SandboxId>);

impl Recorded {
    /// The sandbox, after its commands were recorded.
    pub(super) fn new(sandbox: Authorized<SandboxId>) -> Self {
        Self(sandbox)
    }
}

impl Deref for Recorded {
    type Target = Authorized<SandboxId>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Proof that the principal is the operator.
#[derive(Debug)]
pub struct ByOperator(());

impl ByOperator {
    /// The proof, after the check.
    pub(super) fn new() -> Self {
        Self(())
    }
}
