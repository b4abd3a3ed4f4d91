//! The real daemon on the real engine, through the client its users have. One story per test.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod bad_input;
mod batch;
mod bounds;
mod cli;
mod command;
mod cp;
mod database;
mod doctor;
mod door;
mod egress;
mod egress_policy;
mod egress_web;
mod engine_proxy;
mod engine_view;
mod faults;
mod files;
mod follow;
mod gates;
mod gvisor;
mod hardening;
mod harness;
mod http;
#[path = "../store/hurt.rs"]
mod hurt;
mod lifecycle;
mod limits;
mod links;
mod log;
mod logs;
mod metrics;
mod openapi;
mod original_client;
mod originals;
mod output;
mod own_engine;
mod people;
mod pressure;
mod previews;
mod process;
mod promises;
mod published;
mod read_only;
mod rest;
mod screens;
mod sink;
mod start_up;
mod stdin;
mod terminal;
mod terminal_bounds;
mod terminal_life;
mod terminal_shell;
mod terminal_socket;
mod tunnels;
mod visitor;
