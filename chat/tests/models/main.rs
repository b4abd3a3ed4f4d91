//! Both ways to ask a model, against a scripted server that answers as the real ones do, and as none should.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod anthropic;
mod bounds;
mod faults;
mod heard;
mod openai;
mod openai_request;
mod privacy;
#[path = "../scripted_model/mod.rs"]
mod scripted_model;
