//! Outbound network: the proxy, the policy of a sandbox, and destinations that no policy allows.

mod approval;
mod blocked;
mod open_network;
mod policy;
mod proxy;
mod registries;
