//! The commands of the `sandboxd` program, each as a process of its own.

mod commands;
mod cp;
mod doctor;
mod logs;
mod manage;
mod run;
