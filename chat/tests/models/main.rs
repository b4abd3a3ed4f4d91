//! Both model APIs, against a scripted server that responds as real ones do, and as none should.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod anthropic;
mod bounds;
mod faults;
mod openai;
mod openai_request;
mod privacy;
mod received;
#[path = "../scripted_model/mod.rs"]
mod scripted_model;
