//! Accounts: values and their limits, without I/O.

mod invitation;
pub mod limits;
mod name;
mod owner;
mod role;
mod secret;
mod session;
mod user;

pub use invitation::Invitation;
pub use name::{BadName, UserName};
pub use owner::Owner;
pub use role::Role;
pub use secret::{Secret, SecretHash};
pub use session::{Session, SignedIn};
pub use user::{BadUserId, User, UserId};
