//! Previews and published ports: links, visitors, servers, and pages that attack each other.

mod browser_attacks;
mod credentials;
mod dev_servers;
mod downloads;
mod downloads_in_a_browser;
mod faults;
mod links;
mod ports;
mod published_ports;
mod smuggling;
