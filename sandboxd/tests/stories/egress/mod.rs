//! Outbound network: the proxy, the policy of a sandbox, and what no policy opens.

mod blocked;
mod open_network;
mod policy;
mod proxy;
mod registries;
